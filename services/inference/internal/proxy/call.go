package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/signalbox-dev/signalbox/services/inference/internal/lease"
	"github.com/signalbox-dev/signalbox/services/inference/internal/relay"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// readFirst is the largest body that is read before it is sent on, so that it can be sent again on a
	// fresh connection and its model is known.
	readFirst = 1 << 20
	chunk     = 32 << 10
	// statusClosed is nginx's for a caller who left; it is in the record only.
	statusClosed = 499
)

var errTooLarge = errors.New("the body is too large")

// exchange is one call on its way.
type exchange struct {
	*Proxy

	a     *admitted
	rec   *traffic.Call
	began time.Time
	body  []byte // where it was read first
	in    relay.Request
}

// call relays one admitted call and records it.
func (p *Proxy) call(ctx context.Context, w http.ResponseWriter, r *http.Request, a *admitted) {
	e := &exchange{Proxy: p, a: a, began: p.Clock.Now()}
	rev := a.deployment.Promoted
	e.rec = &traffic.Call{
		RequestID: a.requestID, At: e.began, DeploymentID: a.deployment.ID, RevisionID: rev.ID, RevisionNumber: rev.Number,
		TokenID: a.token.ID, TokenName: a.token.Name, Method: r.Method, Path: cut(a.target.Path, 512),
		UsageSource: traffic.UsageNone, RequestBytes: max(r.ContentLength, 0),
	}
	if err := e.prepare(r); err != nil {
		p.refuse(w, err, a.requestID)
		return
	}
	answer, err := e.dial(ctx, r, rev)
	if err != nil {
		e.fail(ctx, w, err)
		return
	}
	defer p.busyDone(e.rec.ReplicaID)
	e.answer(ctx, w, answer)
}

// prepare reads a small body whole; a large or endless one is streamed.
func (e *exchange) prepare(r *http.Request) error {
	e.in = relay.Request{Method: r.Method, Target: e.a.target, Length: r.ContentLength}
	switch {
	case r.ContentLength == 0:
		return nil
	case r.ContentLength < 0 || r.ContentLength > readFirst:
		e.in.Body = &limited{in: r.Body, left: e.MaxBody}
		return nil
	}
	e.body = make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, e.body); err != nil {
		return fault.New(fault.Refused, "body_cut", "The body ended before its Content-Length").Wrap(err)
	}
	asked := readRequest(r.Header.Get("Content-Type"), e.body)
	e.rec.RequestedModel, e.rec.Stream = asked.Model, asked.Stream
	e.in.Replay = func() io.Reader { return bytes.NewReader(e.body) }
	e.in.Body = e.in.Replay()
	return nil
}

// dial tries the replicas until one takes the call.
func (e *exchange) dial(ctx context.Context, r *http.Request, rev *lease.Revision) (*relay.Answer, error) {
	var last error
	for _, replica := range e.choose(rev.Replicas) {
		addr, err := dialAddress(replica.Address)
		if err != nil {
			last = err
			continue
		}
		e.in.Header = engineHeader(r.Header, replica.APIKey.Reveal(), e.a.requestID)
		e.rec.ReplicaID = replica.ID
		e.busy(replica).Add(1)
		answer, err := e.Relay.Do(ctx, addr, e.in)
		if err == nil {
			return answer, nil
		}
		e.busyDone(replica.ID)
		last = err
		if !errors.Is(err, relay.ErrUnreachable) {
			return nil, err
		}
	}
	return nil, last
}

func (p *Proxy) busyDone(replicaID string) {
	if n, ok := p.inflight.Load(replicaID); ok {
		n.(interface{ Add(delta int64) int64 }).Add(-1)
	}
}

// dialAddress is the host:port of an engine.
func dialAddress(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return "", fault.New(fault.Dependency, "engine_unreachable", "The engine's address cannot be used")
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		return net.JoinHostPort(u.Host, "80"), nil //nolint:nilerr // a host without a port has HTTP's.
	}
	return u.Host, nil
}

// fail answers a call that got no answer of an engine.
func (e *exchange) fail(ctx context.Context, w http.ResponseWriter, err error) {
	var answer *fault.Error
	switch {
	case errors.Is(err, lease.ErrRevoked) || errors.Is(context.Cause(ctx), lease.ErrRevoked):
		e.rec.Outcome, answer = traffic.Revoked, fault.From(badToken())
	case errors.Is(err, errTooLarge):
		e.rec.Outcome, answer = traffic.EngineError, fault.New(fault.TooLarge, "body_too_large", "The body is larger than %d bytes", e.MaxBody)
	case ctx.Err() != nil:
		e.rec.Outcome, e.rec.Status = traffic.ClientClosed, statusClosed
		e.record(ctx)
		panic(http.ErrAbortHandler)
	case errors.Is(err, relay.ErrSilent):
		e.rec.Outcome, answer = traffic.Timeout, fault.New(fault.Dependency, "engine_timeout", "The engine did not answer in time")
	default:
		e.rec.Outcome, answer = traffic.Unreachable, fault.New(fault.Dependency, "engine_unreachable", "The engine cannot be reached")
		e.Log.WarnContext(ctx, "an engine cannot be reached", "error", err, "replica_id", e.rec.ReplicaID)
	}
	e.rec.Status = int32(fault.HTTPStatus(answer.Kind))
	e.record(ctx)
	e.refuse(w, answer, e.a.requestID)
}

// answer passes the engine's answer on as it comes.
func (e *exchange) answer(ctx context.Context, w http.ResponseWriter, a *relay.Answer) {
	resp := a.Response
	callerHeader(w.Header(), resp.Header, e.a.requestID)
	w.WriteHeader(resp.StatusCode)
	e.rec.Status, e.rec.Outcome = int32(resp.StatusCode), traffic.OK
	if resp.StatusCode >= http.StatusInternalServerError {
		e.rec.Outcome = traffic.EngineError
	}
	copied := &tee{stream: isStream(resp.Header)}
	e.rec.Stream = e.rec.Stream || copied.stream
	err := e.pump(w, a, copied)
	_ = a.Close()
	copied.fill(e.rec)
	if err == nil {
		e.record(ctx)
		return
	}
	e.cut(ctx, w, copied.stream)
}

// pump copies until the end, flushing after each read.
func (e *exchange) pump(w http.ResponseWriter, a *relay.Answer, copied *tee) error {
	flush := http.NewResponseController(w)
	buf := make([]byte, chunk)
	for {
		n, err := a.Read(buf)
		if n > 0 {
			if e.rec.TTFT == nil {
				ms := e.elapsed()
				e.rec.TTFT = &ms
			}
			e.rec.ResponseBytes += int64(n)
			copied.take(buf[:n])
			if _, err := w.Write(buf[:n]); err != nil {
				return errCaller
			}
			if err := flush.Flush(); err != nil {
				return errCaller
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var errCaller = errors.New("the caller is gone")

// engineLost is the last event of a stream whose engine died.
const engineLost = "data: {\"error\":{\"message\":\"engine connection lost\",\"type\":\"server_error\",\"code\":\"engine_lost\"}}\n\n"

// cut records why an answer did not come to its end and aborts the connection, so that it cannot pass
// for a whole one.
func (e *exchange) cut(ctx context.Context, w http.ResponseWriter, stream bool) {
	switch {
	case errors.Is(context.Cause(ctx), lease.ErrRevoked):
		e.rec.Outcome = traffic.Revoked
	case ctx.Err() != nil:
		e.rec.Outcome = traffic.ClientClosed
	default:
		e.rec.Outcome = traffic.Truncated
		if stream {
			_, _ = io.WriteString(w, "\n\n"+engineLost)
			_ = http.NewResponseController(w).Flush()
		}
	}
	e.record(ctx)
	panic(http.ErrAbortHandler)
}

func (e *exchange) elapsed() float64 {
	return float64(clock.Since(e.Clock, e.began)) / float64(time.Millisecond)
}

func (e *exchange) record(ctx context.Context) {
	e.rec.Duration = e.elapsed()
	e.Recorder.Record(ctx, e.rec)
}
