package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/services/inference/internal/lease"
	"github.com/signalbox-dev/signalbox/services/inference/internal/relay"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// answer passes the engine's answer on as it comes.
func (e *exchange) answer(ctx context.Context, a *relay.Answer) {
	resp := a.Response
	// The end of the call frees a write that a slow caller holds up. Stopped before the connection is
	// left to its next request.
	defer e.caller.settle()
	defer context.AfterFunc(ctx, func() { _ = e.caller.ctl.SetWriteDeadline(past()) })()
	callerHeader(e.caller.w.Header(), resp.Header, e.a.requestID)
	e.caller.w.WriteHeader(resp.StatusCode)
	e.rec.Status, e.rec.Outcome = int32(resp.StatusCode), traffic.OK
	if resp.StatusCode >= http.StatusInternalServerError {
		e.rec.Outcome = traffic.EngineError
	}
	copied := &tee{stream: isStream(resp.Header)}
	e.rec.Stream = e.rec.Stream || copied.stream
	err := e.pump(a, copied)
	sent := a.Close()
	if e.upload != nil {
		e.rec.RequestBytes = e.upload.read
	}
	copied.fill(e.rec)
	if err == nil {
		callerTrailer(e.caller.w.Header(), resp.Trailer)
		e.record(ctx)
		return
	}
	plain := resp.Header.Get("Content-Encoding") == ""
	e.cut(ctx, err, sent, copied, plain)
}

// informational passes on what an engine says before it answers, with the headers that an answer may have. The
// server keeps none of them for the answer.
func (e *exchange) informational(status int, header http.Header) {
	if e.upload != nil {
		return // another goroutine may be in the body, and with it in the server's own 100.
	}
	h := e.caller.w.Header()
	kept := maps.Clone(h)
	for name, values := range header {
		if fromEngine(name) && !strings.HasPrefix(name, "Content-") {
			h[name] = values
		}
	}
	e.caller.w.WriteHeader(status)
	clear(h)
	maps.Copy(h, kept)
}

// pump copies until the end, flushing after each read.
func (e *exchange) pump(a *relay.Answer, copied *tee) error {
	if a.Response.ContentLength < 0 {
		// The head, which may be all for a while.
		if err := e.caller.write(nil); err != nil {
			return err
		}
	}
	buf := make([]byte, chunk)
	for {
		n, err := a.Read(buf)
		if n > 0 {
			if e.rec.TTFT == nil {
				ms := e.elapsed()
				e.rec.TTFT = &ms
			}
			copied.take(buf[:n])
			if err := e.caller.write(buf[:n]); err != nil {
				return err
			}
			e.rec.ResponseBytes += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// engineLost is the last event of a stream whose engine died.
const engineLost = "data: {\"error\":{\"message\":\"engine connection lost\",\"type\":\"server_error\",\"code\":\"engine_lost\"}}\n\n"

// cut records why an answer did not come to its end and aborts the connection, so that it cannot pass
// for a whole one. The answer failed with err, the sending of the request with sent.
func (e *exchange) cut(ctx context.Context, err, sent error, copied *tee, plain bool) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, lease.ErrRevoked):
		e.rec.Outcome = traffic.Revoked
	case errors.Is(cause, lease.ErrOver):
		e.rec.Outcome = traffic.LeaseOver
	case errors.Is(cause, lease.ErrSuspended):
		e.rec.Outcome = traffic.Suspended
	case ctx.Err() != nil || errors.Is(err, errCaller) || errors.Is(sent, relay.ErrSource):
		e.rec.Outcome = traffic.ClientClosed
	default:
		e.rec.Outcome = traffic.Truncated
		if copied.stream && plain {
			// An event of its own, also where the engine died within one.
			last := engineLost
			if !copied.atBoundary() {
				last = "\n\n" + engineLost
			}
			_ = e.caller.write([]byte(last)) // the connection is aborted either way
		}
	}
	e.record(ctx)
	panic(http.ErrAbortHandler)
}
