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
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/inference/internal/lease"
	"github.com/signalbox-dev/signalbox/services/inference/internal/relay"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

const (
	// readFirst is the largest body that is read before it is sent on, so that it can be sent again on a
	// fresh connection and its model is known.
	readFirst = 1 << 20
	chunk     = 32 << 10
	// statusClosed is nginx's for a caller who left; it is in the record only.
	statusClosed = 499
)

// exchange is one call on its way.
type exchange struct {
	*Proxy

	a      *admitted
	rec    *traffic.Call
	began  time.Time
	caller *caller
	in     relay.Request
	upload *upload // nil where the body was read first
}

// call relays one admitted call and records it.
func (p *Proxy) call(ctx context.Context, w http.ResponseWriter, r *http.Request, a *admitted) {
	e := p.exchange(ctx, w, r, a)
	defer context.AfterFunc(ctx, e.caller.interrupt)()
	if err := e.prepare(r); err != nil {
		e.fail(ctx, w, err)
		return
	}
	answer, err := e.dial(ctx, r)
	if e.upload != nil && err != nil {
		e.rec.RequestBytes = e.upload.read
	}
	if err != nil {
		e.fail(ctx, w, err)
		return
	}
	defer p.busy.leave(e.rec.ReplicaID)
	e.answer(ctx, answer)
}

// exchange begins the record of a call.
func (p *Proxy) exchange(ctx context.Context, w http.ResponseWriter, r *http.Request, a *admitted) *exchange {
	e := &exchange{Proxy: p, a: a, began: p.Clock.Now(), caller: newCaller(ctx, w, p.Idle)}
	rev := a.deployment.Promoted
	e.rec = &traffic.Call{
		RequestID: a.requestID, At: e.began, DeploymentID: a.deployment.ID, RevisionID: rev.ID, RevisionNumber: rev.Number,
		TokenID: a.token.ID, TokenName: a.token.Name, Method: r.Method, Path: cut(a.target.Path, 512),
		UsageSource: traffic.UsageNone, RequestBytes: max(r.ContentLength, 0),
	}
	return e
}

// prepare reads a small body whole; a large or endless one is streamed.
func (e *exchange) prepare(r *http.Request) error {
	e.in = relay.Request{Method: r.Method, Target: e.a.target, Length: r.ContentLength, Informational: e.informational}
	if r.ContentLength == 0 {
		return nil
	}
	body := &upload{caller: e.caller, in: r.Body, left: e.MaxBody}
	if r.ContentLength < 0 || r.ContentLength > readFirst {
		// Else the server reads the body itself before the answer's first byte.
		if err := e.caller.ctl.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("relay the body: %w", err)
		}
		e.upload, e.in.Body, e.in.Interrupt = body, body, e.caller.interrupt
		if e.a.capture != nil {
			e.a.capture.Request(nil, false)
		}
		return nil
	}
	whole := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(body, whole); err != nil {
		return fmt.Errorf("%w: %w", relay.ErrSource, err)
	}
	// The end is read too: what watches the connection for the caller's leaving starts there.
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it does not end", relay.ErrSource)
	}
	if e.a.capture != nil {
		e.a.capture.Request(whole, true)
	}
	asked := readRequest(r.Header.Get("Content-Type"), whole)
	e.rec.RequestedModel, e.rec.Stream = asked.Model, asked.Stream
	e.in.Replay = func() io.Reader { return bytes.NewReader(whole) }
	e.in.Body = e.in.Replay()
	return nil
}

// dial tries the replicas until one takes the call. Another one is tried only where nothing was sent.
func (e *exchange) dial(ctx context.Context, r *http.Request) (*relay.Answer, error) {
	var last error
	for _, replica := range e.busy.choose(e.a.deployment.Promoted.Replicas) {
		e.rec.ReplicaID = replica.ID
		to, err := engineOf(replica)
		if err != nil {
			last = err
			continue
		}
		e.in.Header = engineHeader(ctx, r.Header, replica.APIKey.Reveal(), e.a.requestID)
		if e.a.socket {
			socketHeader(e.in.Header, r.Header)
		}
		e.busy.enter(replica.ID)
		answer, err := e.Relay.Do(ctx, to, e.in)
		if err == nil {
			return answer, nil
		}
		e.busy.leave(replica.ID)
		last = err
		if !errors.Is(err, relay.ErrUnreachable) {
			return nil, err
		}
	}
	return nil, last
}

// fail answers a call that got no answer of an engine.
func (e *exchange) fail(ctx context.Context, w http.ResponseWriter, err error) {
	if errors.Is(err, errTooLarge) {
		// A check like those before it, only that the size was not known then.
		w.Header().Set("Connection", "close")
		e.caller.resume()
		e.refuse(ctx, w, tooLarge(e.MaxBody), e.a.requestID)
		return
	}
	outcome, answer := e.explain(ctx, err)
	e.rec.Outcome = outcome
	if answer == nil {
		e.rec.Status = statusClosed
		e.record(ctx)
		panic(http.ErrAbortHandler)
	}
	if outcome == traffic.Unreachable || outcome == traffic.EngineError {
		e.Log.WarnContext(ctx, "an engine gave no answer", "error", err, "replica_id", e.rec.ReplicaID, "request_id", e.a.requestID)
	}
	e.rec.Status = int32(fault.HTTPStatus(answer.Kind))
	e.record(ctx)
	e.write(w, answer, e.a.requestID)
}

// explain is what a failure counts as and what is said of it; nothing where no one listens.
func (e *exchange) explain(ctx context.Context, err error) (outcome string, answer *fault.Error) {
	cause := context.Cause(ctx)
	if said, ok := errors.AsType[*fault.Error](cause); ok {
		return traffic.SessionOver, said
	}
	switch {
	case errors.Is(cause, lease.ErrRevoked):
		return traffic.Revoked, badToken()
	case errors.Is(cause, lease.ErrOver):
		return traffic.LeaseOver, LeaseOver()
	case errors.Is(cause, lease.ErrSuspended):
		return traffic.Suspended, suspended()
	case ctx.Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		// A caller who was too slow is still there, though the server has given up the connection.
		return traffic.ClientClosed, nil
	case errors.Is(err, relay.ErrSource):
		return traffic.ClientClosed, fault.New(fault.Refused, "body_cut", "The body of the request could not be read to its end")
	case errors.Is(err, relay.ErrSilent):
		return traffic.Timeout, fault.New(fault.Dependency, "engine_timeout", "The engine did not answer in time")
	case errors.Is(err, relay.ErrUnreachable):
		return traffic.Unreachable, fault.New(fault.Dependency, "engine_unreachable", "The engine cannot be reached")
	default:
		return traffic.EngineError, fault.New(fault.Dependency, "engine_lost", "The engine gave no answer that can be passed on")
	}
}

// Capture takes copies of the bodies of a call; Call of the Guest's recorder comes after the last of them.
type Capture interface {
	Request(b []byte, whole bool)
	Response(b []byte)
}

// Guest is a call that was admitted elsewhere: with a login, to a target of a playground session.
type Guest struct {
	RequestID string
	// Target is the engine's path with the query.
	Target *url.URL
	// Session and Number name what is called in the record.
	Session string
	Number  int32
	Replica *lease.Replica
	Capture Capture
}

// Target is the engine's path of what follows /v1 or is it, as a path escapes it; ok is false for one that must
// not be passed on.
func Target(escaped string) (path string, ok bool) {
	_, path, _, ok = route(prefix + "x" + escaped)
	return path, ok
}

// Guest relays one call that was admitted elsewhere. What is refused of it is refused as to a caller of a
// deployment; a fault as the context's cause is what the caller is told of its end.
func (p *Proxy) Guest(ctx context.Context, w http.ResponseWriter, r *http.Request, g Guest) {
	a := &admitted{
		token: &lease.Token{}, target: g.Target, requestID: g.RequestID, socket: upgrades(r), capture: g.Capture,
		deployment: &lease.Deployment{ID: g.Session, Promoted: &lease.Revision{Number: g.Number, Replicas: []*lease.Replica{g.Replica}}},
	}
	if err := p.fits(r, true); err != nil {
		p.refuse(ctx, w, err, g.RequestID)
		return
	}
	if a.socket {
		p.socket(ctx, w, r, a)
		return
	}
	p.call(ctx, w, r, a)
}

func (e *exchange) elapsed() float64 {
	return float64(clock.Since(e.Clock, e.began)) / float64(time.Millisecond)
}

func (e *exchange) record(ctx context.Context) {
	e.rec.Duration = e.elapsed()
	e.Tally.Call(ctx, e.rec.Outcome)
	e.Recorder.Record(ctx, e.rec)
}
