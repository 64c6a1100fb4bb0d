// Package proxy handles the calls to deployments: it checks the token, finds the promoted revision and relays
// the call to one of the engines. It does not change bodies, and passes on all headers except those that held.go lists.
// Errors of the proxy itself have OpenAI's error format, so that clients show them. A truncated response never looks
// complete.
package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// recorder stores the record of a call.
type recorder interface {
	Record(ctx context.Context, c *traffic.Call)
}

// tally measures calls and counts refusals by reason.
type tally interface {
	// Begin is called when a call has passed the checks. The deployment id is empty for a call of Guest.
	Begin(ctx context.Context, deploymentID string, way traffic.Way) traffic.Flight
	Rejected(ctx context.Context, reason string)
}

// Proxy is the HTTP handler of /inference.
type Proxy struct {
	Lease    *routing.Lease
	Engines  *engineclient.Client
	Recorder recorder
	Clock    clock.Clock
	IDs      *id.Source
	Log      *slog.Logger
	Tally    tally
	// MaxBody is the maximum size of a request body, in bytes.
	MaxBody int64
	// Idle limits each pause of a caller that sends the request or reads the response.
	Idle time.Duration
	// Sockets contains the limits of WebSockets.
	Sockets Sockets

	draining atomic.Bool
	drain    sync.Once
	drained  chan struct{} // closed by Drain; use stopping to get it
	making   sync.Once
	busy     busy
	buffers  sync.Pool // of *[]byte, see takeBuffer
}

// roomForHead is the room in a buffer beside a part of a body: for the head of a response, or the size of a chunk.
const roomForHead = 4 << 10

// takeBuffer returns a buffer of chunk+roomForHead bytes with any content. It must be given back when it is not used any
// more.
func (p *Proxy) takeBuffer() *[]byte {
	buf, ok := p.buffers.Get().(*[]byte)
	if !ok {
		made := make([]byte, chunk+roomForHead)
		buf = &made
	}
	return buf
}

func (p *Proxy) giveBuffer(buf *[]byte) { p.buffers.Put(buf) }

// Drain makes the proxy refuse new calls from now on. Open calls continue; a WebSocket ends at
// its next pause.
func (p *Proxy) Drain() {
	p.draining.Store(true)
	p.drain.Do(func() { close(p.stopping()) })
}

// WithRecorder returns a copy of the proxy that uses another recorder. Only its method Guest may be called.
func (p *Proxy) WithRecorder(r recorder) *Proxy {
	q := &Proxy{
		Lease: p.Lease, Engines: p.Engines, Recorder: r, Clock: p.Clock, IDs: p.IDs, Log: p.Log, Tally: p.Tally, MaxBody: p.MaxBody, Idle: p.Idle,
		Sockets: p.Sockets, drained: p.stopping(),
	}
	q.making.Do(func() {}) // drained is already set
	return q
}

// Draining returns the error for a new call if new calls are refused, otherwise nil.
func (p *Proxy) Draining() *fault.Error {
	if !p.draining.Load() {
		return nil
	}
	return fault.New(fault.Unavailable, codeDraining, "the server is stopping").WithRetryAfter(time.Second)
}

// stopping returns a channel that is closed when draining begins.
func (p *Proxy) stopping() chan struct{} {
	p.making.Do(func() { p.drained = make(chan struct{}) })
	return p.drained
}

// admitted is a call that passed every check.
type admitted struct {
	*request

	token      *routing.Token
	sum        []byte
	deployment *routing.Deployment
	prefix     string // the caller's path to the engine, without /v1
	target     *url.URL
	line       string // target as a request line has it
	requestID  string
	socket     bool    // the call is a WebSocket handshake
	guest      bool    // the call is one of Guest, and deployment has the id of its session
	capture    Capture // set for Guest calls only
	open       routing.Call
}

// ServeHTTP implements http.Handler. The order of its checks is fixed and tested.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID, a := p.requestID(r), &admitted{request: requestOf(r)}
	if err := p.admit(a); err != nil {
		p.refuse(r.Context(), w, err, requestID)
		return
	}
	a.requestID = requestID
	ctx, leave, ok := p.enter(r.Context(), a)
	defer leave()
	if !ok {
		// The token, the lease or the deployment has changed since admit. Run the checks again to find the reason.
		err := p.admit(a)
		if err == nil {
			err = LeaseExpired()
		}
		p.refuse(r.Context(), w, err, requestID)
		return
	}
	if a.socket {
		p.socket(ctx, w, a)
		return
	}
	p.call(ctx, w, r, a)
}

// enter registers the call, so that the lease can cut it. It returns a context that ends when the call is cut, with the
// cause, or when the function leave is called. leave must be called when the call has ended.
func (p *Proxy) enter(ctx context.Context, a *admitted) (_ context.Context, leave func(), ok bool) {
	ctx, cut := context.WithCancelCause(ctx)
	ok = p.Lease.Enter(&a.open, a.sum, a.token, cut)
	return ctx, func() {
		cut(nil)
		p.Lease.Leave(&a.open)
	}, ok
}

// requestID returns the id that the gateway assigned, which the caller cannot choose, or a new one.
func (p *Proxy) requestID(r *http.Request) string {
	if given := obs.RequestID(r.Context()); id.Check(id.Request, given) == nil {
		return given
	}
	return p.IDs.New(id.Request)
}

// refuse sends an error for a call that must not reach an engine. The refusal is counted but not recorded.
func (p *Proxy) refuse(ctx context.Context, w http.ResponseWriter, err *fault.Error, requestID string) {
	reason := err.Code
	if reason == "" {
		reason = string(err.Kind)
	}
	p.Tally.Rejected(ctx, reason)
	if err.Code == codeDraining || err.Code == codeLeaseOver {
		w.Header().Set(fault.HeaderRefused, err.Code)
	}
	WriteError(w, err, requestID)
}

// WriteError responds with an error, and with the headers that clients of engines expect for it.
func WriteError(w http.ResponseWriter, err *fault.Error, requestID string) {
	switch err.Code {
	case codeSuspended:
		w.Header().Set(headerShouldRetry, "false")
	case codeDraining:
		w.Header().Set("Connection", "close")
	}
	fault.WriteOpenAI(w, err, requestID)
}

const (
	// headerShouldRetry is the header by which the clients of OpenAI decide whether to repeat a call.
	headerShouldRetry = "X-Should-Retry"

	codeSuspended = "deployment_suspended"
	codeDraining  = "draining"
	codeLeaseOver = "lease_over"
	// retryReady is the Retry-After of calls that are refused because no revision is ready or the lease has expired.
	retryReady = 10 * time.Second
)

// LeaseExpired returns the error for a call to a replica without a valid lease.
func LeaseExpired() *fault.Error {
	return fault.New(fault.Unavailable, codeLeaseOver, "this replica has lost contact with the registry").WithRetryAfter(retryReady)
}

func suspended() *fault.Error {
	return fault.New(fault.Unavailable, codeSuspended, "the deployment is suspended").WithRetryAfter(-1)
}

func tooLarge(limit int64) *fault.Error {
	return fault.New(fault.TooLarge, "body_too_large", "the request body exceeds the limit of %d bytes", limit)
}

func badToken() *fault.Error {
	return fault.New(fault.Unauthenticated, "token_invalid", "the deployment token is missing, malformed or revoked")
}

// admit runs the checks on a.request, and sets what follows from them. It uses only the current snapshot and calls no
// other service.
func (p *Proxy) admit(a *admitted) *fault.Error {
	r := a.request
	path, verdict := enginepath.Read(r.url)
	switch {
	case verdict == enginepath.Bad && path.Prefix == "":
		return enginepath.BadPath()
	case path.ID == "" || path.Number != "":
		return enginepath.NotFound()
	}
	if err := p.Draining(); err != nil {
		return err
	}
	if !p.Lease.Valid() {
		return LeaseExpired()
	}
	sum, err := bearer(r.header)
	if err != nil {
		return err
	}
	token, ok := p.Lease.Token(sum)
	if !ok {
		return badToken()
	}
	d, ok := p.Lease.Deployment(path.ID)
	if !ok {
		return fault.Absentf("deployment", path.ID)
	}
	if token.DeploymentID != path.ID {
		return fault.New(fault.Forbidden, "token_of_another_deployment", "this token belongs to another deployment")
	}
	if err := p.serves(d); err != nil {
		return err
	}
	if err := p.fits(r, verdict); err != nil {
		return err
	}
	a.token, a.sum, a.deployment, a.prefix, a.target, a.socket = token, sum, d, path.Prefix, path.At(r.url), upgrades(r.header)
	if r.sent != "" {
		a.line = r.sent[len(path.Prefix):]
	} else {
		a.line = a.target.RequestURI()
	}
	return nil
}

// bearer returns the hash of the deployment token in the Authorization header. It returns an error unless there is
// exactly one such header with a well-formed token.
func bearer(h httprelay.Header) (sum []byte, err *fault.Error) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return nil, badToken()
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return nil, badToken()
	}
	sum, ok = secret.Parse(secret.KindDeployment, token)
	if other := secret.Credential(token); !ok && other != "" {
		return nil, fault.New(fault.Unauthenticated, "token_invalid", "this route expects a deployment token, not %s", other)
	}
	if !ok {
		return nil, badToken()
	}
	return sum, nil
}

func (p *Proxy) serves(d *routing.Deployment) *fault.Error {
	if d.Suspended {
		return suspended()
	}
	if d.Promoted == nil {
		return fault.New(fault.Unavailable, "no_ready_revision", "no revision is promoted").WithRetryAfter(retryReady)
	}
	if !d.Promoted.Ready || len(d.Promoted.Replicas) == 0 {
		return fault.New(fault.Unavailable, "no_ready_revision", "revision %d is not ready: %s", d.Promoted.Number, d.Promoted.Reason).
			WithRetryAfter(retryReady)
	}
	return nil
}

func (p *Proxy) fits(r *request, verdict enginepath.Verdict) *fault.Error {
	if verdict != enginepath.Good {
		return enginepath.BadPath()
	}
	if err := enginepath.BadMethod(r.method); err != nil {
		return err
	}
	if upgrades(r.header) {
		return handshake(r)
	}
	if r.length > p.MaxBody {
		return tooLarge(p.MaxBody)
	}
	return nil
}
