package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
	"github.com/signalbox-dev/signalbox/services/inference/internal/usage"
)

const (
	// readFirst is the size up to which a body of known length is read completely before the call is relayed, within the
	// idle time. Such a body can be sent again on a new connection.
	readFirst = 1 << 20
	chunk     = 32 << 10
	// statusClosed is the recorded status of a call whose client disconnected. nginx uses the same number. No response
	// has this status.
	statusClosed = 499
)

// exchange is one call while it is relayed.
type exchange struct {
	*Proxy

	ctx     context.Context //nolint:containedctx // the context of the call.
	a       *admitted
	rec     *traffic.Call
	flight  traffic.Flight
	wanted  usage.Request  // reads the request body for rec
	reader  *usage.Request // wanted; nil without a body, and after noteRequest
	found   usage.Response // reads the response body for rec
	began   time.Time
	client  client
	in      engineclient.Request
	engine  string  // the host:port of the replica
	upload  *upload // nil if the body was read completely before the call was relayed
	sent    bool    // an engine may have received the call or a part of it
	aborted bool    // the caller did not get a complete response, so its connection must be cut
}

// client is the caller's side of a call.
type client interface {
	// inform sends a 1xx response.
	inform(status int, h httprelay.Header)
	// begin sets the head of the response, which is sent with its first bytes. The length of the body is -1 if it is
	// unknown. The parameter last is true if the connection must end with the response.
	begin(status int, h httprelay.Header, length int64, last bool)
	// write sends a part of the body within the idle time. If the body has ended, it may leave the part to end.
	write(p []byte, ended bool) error
	// end ends a complete response.
	end(trailer httprelay.Header) error
	// farewell sends a last part of the body even if the call has ended.
	farewell(p []byte)
	// refuse sends an error response. The parameter last is that of begin; never is true if the caller must not repeat the
	// call.
	refuse(err *fault.Error, requestID string, last, never bool)
	// cutWrites makes a blocked write return when the call ends. When the function stop has returned, that was done or
	// prevented.
	cutWrites(ctx context.Context) (stop func())
	// settle ends the writing.
	settle()
}

// call relays one admitted call and records it.
func (p *Proxy) call(ctx context.Context, w http.ResponseWriter, r *http.Request, a *admitted) {
	own := newCaller(ctx, w, p.Idle)
	e := p.exchange(ctx, own, a)
	defer e.flight.End()
	defer context.AfterFunc(ctx, own.interrupt)()
	if err := e.prepare(own, r); err != nil {
		e.fail(ctx, err)
	} else {
		e.relay(ctx)
	}
	// Read the rest of a streamed body: closing the connection with unread bytes could destroy the response. HTTP/2 does
	// not need this.
	if e.upload != nil && !e.upload.ended.Load() && (a.http11 || a.older) && !e.aborted {
		e.upload.ended.Store(own.drain(e.upload.in))
	}
	e.abort()
}

// abort ends the caller's connection if the response is not complete.
func (e *exchange) abort() {
	if e.aborted {
		panic(http.ErrAbortHandler)
	}
}

// relay sends the call to an engine, and the engine's response to the caller.
func (e *exchange) relay(ctx context.Context) {
	answer, err := e.dial(ctx)
	if err != nil {
		e.noteRequest()
		e.fail(ctx, err)
		return
	}
	defer e.busy.leave(e.rec.ReplicaID)
	e.respond(ctx, answer)
}

// exchange creates the exchange of a call and its record. The caller must end its flight.
func (p *Proxy) exchange(ctx context.Context, c client, a *admitted) *exchange {
	e := &exchange{}
	p.begin(ctx, e, c, a)
	return e
}

// begin begins the exchange of a call and its record. The caller must end its flight.
func (p *Proxy) begin(ctx context.Context, e *exchange, c client, a *admitted) {
	e.Proxy, e.ctx, e.a, e.began, e.client = p, ctx, a, p.Clock.Now(), c
	rev := a.deployment.Promoted
	e.rec = &traffic.Call{
		RequestID: a.requestID, At: startOf(a.requestID, e.began), DeploymentID: a.deployment.ID, RevisionID: rev.ID, RevisionNumber: rev.Number,
		TokenID: a.token.ID, TokenName: a.token.Name, Method: a.method, Path: cut(a.target.Path, 512),
		UsageSource: traffic.UsageNone, RequestBytes: max(a.length, 0),
	}
	deploymentID := a.deployment.ID
	if a.guest {
		deploymentID = ""
	}
	way := traffic.Usual
	if _, direct := c.(*connection); direct {
		way = traffic.Fast
	}
	e.flight = p.Tally.Begin(ctx, deploymentID, way)
}

// startOf returns the time at which a call is recorded: that of its id, so that the id is a position in lists, unless the
// caller chose the id of another time.
func startOf(requestID string, began time.Time) time.Time {
	const handling = 100 * time.Millisecond // at most, from the id to the proxy
	if at := id.Time(requestID); !at.After(began) && began.Sub(at) < handling {
		return at
	}
	return began
}

// prepare reads a small body completely. A large body, or one of unknown length, is streamed.
func (e *exchange) prepare(own *caller, r *http.Request) error {
	e.in = engineclient.Request{Method: e.a.method, Target: e.a.line, Length: e.a.length}
	if !e.a.older {
		e.in.Informational = e.informational // a client of HTTP/1.0 takes a 1xx response for the final one
	}
	if e.a.length == 0 {
		return nil
	}
	body := &upload{caller: own, in: r.Body, left: e.MaxBody}
	if e.a.length < 0 || e.a.length > readFirst {
		return e.stream(own, body)
	}
	own.until = own.soon() // one deadline for the whole body, because it occupies memory
	whole := make([]byte, e.a.length)
	if _, err := io.ReadFull(body, whole); err != nil {
		return fmt.Errorf("%w: %w", engineclient.ErrRequestBody, err)
	}
	// Read the EOF too: only then does the server start to watch the connection for the caller's disconnect.
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: no EOF after %d bytes", engineclient.ErrRequestBody, len(whole))
	}
	e.hold(whole)
	return nil
}

// stream prepares a body that is read while it is sent to the engine.
func (e *exchange) stream(own *caller, body *upload) error {
	// Without full duplex, the server reads the rest of the body itself before it writes the first byte of the
	// response.
	if err := own.ctl.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("enable full duplex: %w", err)
	}
	e.reader = &e.wanted
	e.reader.Start(e.a.header, e.defect)
	e.upload, e.in.Body = body, &tee{body, e.reader}
	e.in.Interrupt = func() {
		// Do not interrupt a body that has ended: the connection may already carry another request.
		if !body.ended.Load() {
			if e.rec.Status != 0 {
				_ = own.flush() // the response has begun; if this fails, the caller has left
			}
			// Bytes that are on their way end the read earlier. A read that exceeds its deadline breaks the body.
			own.stopReading(clock.Real().Now().Add(lull))
		}
	}
	if e.a.capture != nil {
		e.a.capture.Request(nil, false)
	}
	return nil
}

// hold prepares a body that was read completely.
func (e *exchange) hold(whole []byte) {
	if e.a.capture != nil {
		e.a.capture.Request(whole, true)
	}
	e.reader = &e.wanted
	e.reader.Start(e.a.header, e.defect)
	e.reader.Take(whole)
	e.noteRequest()
	e.in.Replay = func() io.Reader { return bytes.NewReader(whole) }
	e.in.Body = e.in.Replay()
}

// dial sends the call to a replica. It tries the next replica only if nothing was sent to the previous one. Package
// engineclient decides when a call is sent again to the same one.
func (e *exchange) dial(ctx context.Context) (*engineclient.Response, error) {
	var last error
	for _, replica := range e.busy.choose(e.a.deployment.Promoted.Replicas) {
		e.rec.ReplicaID = replica.ID
		to, err := engineOf(replica)
		if err != nil {
			last = err
			continue
		}
		e.engine = to.Addr
		e.in.Header = engineHeader(ctx, e.a.header, replica.APIKey.Reveal(), e.a.requestID)
		if e.a.socket {
			addSocket(&e.in.Header, e.a.header)
		}
		e.in.Waits = engineclient.Waits{FirstByte: replica.FirstByte, Idle: replica.Idle}
		e.busy.enter(replica.ID)
		answer, err := e.Engines.Do(ctx, to, e.in)
		if err == nil {
			e.sent = true
			return answer, nil
		}
		e.busy.leave(replica.ID)
		last = err
		if !errors.Is(err, engineclient.ErrUnreachable) {
			e.sent = !errors.Is(err, engineclient.ErrUnsent)
			return nil, err
		}
		if e.in.Replay != nil {
			e.in.Body = e.in.Replay()
		}
	}
	return nil, last
}

// fail responds to a call that got no valid response from an engine, and records the call. A call whose body is too
// large is refused and not recorded. If the caller has disconnected, fail only records the call.
func (e *exchange) fail(ctx context.Context, err error) {
	if errors.Is(err, errTooLarge) {
		// The size of this body was unknown when the method fits checked the request, so the body is refused only now.
		e.upload.caller.resume(e.Idle)
		e.upload = nil // the rest of the body is the server's
		refused := tooLarge(e.MaxBody)
		e.Tally.Rejected(ctx, refused.Code)
		e.client.refuse(refused, e.a.requestID, true, false)
		return
	}
	outcome := endingOf(ctx, 0, err, nil).outcome()
	answer := explain(ctx, err, outcome)
	e.rec.Outcome = outcome
	if answer == nil {
		e.rec.Status = statusClosed
		e.record(ctx)
		e.aborted = true
		return
	}
	if outcome == traffic.Unreachable || outcome == traffic.EngineError {
		e.Log.WarnContext(ctx, "call to an engine failed", "error", err, "replica_id", e.rec.ReplicaID, "request_id", e.a.requestID)
	}
	e.rec.Status = int32(fault.HTTPStatus(answer.Kind))
	e.record(ctx)
	never := e.sent && !errors.Is(err, engineclient.ErrRequestBody)
	if never {
		// The engine may work on the call, or may have done so: a repeat would do the work again.
		answer = answer.WithRetryAfter(-1)
	}
	e.client.refuse(answer, e.a.requestID, e.endsConnection(), never)
}

// explain returns the error to send to the caller of a call that failed before a response, with the given outcome. It
// is nil if the caller has disconnected.
func explain(ctx context.Context, err error, outcome string) *fault.Error {
	switch outcome {
	case traffic.SessionOver:
		return fault.From(context.Cause(ctx))
	case traffic.Revoked:
		return badToken()
	case traffic.LeaseOver:
		return LeaseExpired()
	case traffic.Suspended:
		return suspended()
	case traffic.ClientClosed:
		if ctx.Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		return fault.New(fault.Refused, "body_cut", "the request body could not be read completely")
	case traffic.Timeout:
		return fault.New(fault.Dependency, "engine_timeout", "the engine did not respond in time")
	case traffic.Unreachable:
		return fault.New(fault.Dependency, "engine_unreachable", "the engine is unreachable")
	default:
		return fault.New(fault.Dependency, "engine_lost", "the engine did not send a valid response")
	}
}

// Capture receives the bodies of a call. Its methods are called before the recorder's Record.
type Capture interface {
	// Request receives the request body. If the body is streamed, b is nil and whole is false. The implementation
	// must copy b to keep it.
	Request(b []byte, whole bool)
	// Response receives the next part of the response body. The implementation must copy b to keep it.
	Response(b []byte)
}

// Guest is a call of a playground session. The registry has admitted it: a logged-in user may call the target.
type Guest struct {
	RequestID string
	// Prefix is the caller's path to the engine, without /v1.
	Prefix string
	// Target is the path and query of the request to the engine.
	Target *url.URL
	// Session and Number are recorded instead of the deployment id and the revision number.
	Session string
	Number  int32
	Replica *routing.Replica
	Capture Capture
}

// Guest relays one call that the registry has admitted. It checks the method, the query, the upgrade and the size of
// the body like ServeHTTP; the caller has checked the path. If the context ends with a fault.Error as its cause, the
// caller receives that error if the response has not begun, or if it is an uncompressed event stream or a WebSocket.
func (p *Proxy) Guest(ctx context.Context, w http.ResponseWriter, r *http.Request, g Guest) {
	in := requestOf(r)
	a := &admitted{
		request: in, token: &routing.Token{}, prefix: g.Prefix, target: g.Target, line: g.Target.RequestURI(), requestID: g.RequestID, socket: upgrades(in.header), guest: true, capture: g.Capture,
		deployment: &routing.Deployment{ID: g.Session, Promoted: &routing.Revision{Number: g.Number, Replicas: []*routing.Replica{g.Replica}}},
	}
	if err := p.fits(in, enginepath.Good); err != nil {
		p.refuse(ctx, w, err, g.RequestID)
		return
	}
	if a.socket {
		p.socket(ctx, w, a)
		return
	}
	p.call(ctx, w, r, a)
}

func (e *exchange) elapsed() float64 {
	return float64(clock.Since(e.Clock, e.began)) / float64(time.Millisecond)
}

// defect logs that a decompressor has panicked.
func (e *exchange) defect(err error) {
	e.Log.ErrorContext(e.ctx, "the rest of a body is not read for the record of its call", "error", err.Error(), "request_id", e.a.requestID)
}

func (e *exchange) record(ctx context.Context) {
	e.rec.Duration = e.elapsed()
	e.flight.Done(e.rec)
	e.Recorder.Record(ctx, e.rec)
}
