package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
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
			if e.a.capture != nil {
				e.a.capture.Response(buf[:n])
			}
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

// last writes the last event of a stream that does not come to its end, as an event of its own, also where the
// engine died within one. It goes past the end of the call, but not for long.
func (e *exchange) last(copied *tee, plain bool, message, code string) {
	if !copied.stream || !plain {
		return
	}
	said, err := json.Marshal(map[string]any{"error": lastError{message, "server_error", code}})
	if err != nil {
		return
	}
	event := append(append([]byte("data: "), said...), "\n\n"...)
	if !copied.atBoundary() {
		event = append([]byte("\n\n"), event...)
	}
	e.caller.farewell(event) // the connection is aborted either way
}

// lastError is the error of a last event.
type lastError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code"`
}

// cut records why an answer did not come to its end and aborts the connection, so that it cannot pass
// for a whole one. The answer failed with err, the sending of the request with sent.
func (e *exchange) cut(ctx context.Context, err, sent error, copied *tee, plain bool) {
	cause := context.Cause(ctx)
	said, over := errors.AsType[*fault.Error](cause)
	switch {
	case over:
		e.rec.Outcome = traffic.SessionOver
		e.last(copied, plain, said.Text(), said.Code)
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
		e.last(copied, plain, "engine connection lost", "engine_lost")
	}
	e.record(ctx)
	panic(http.ErrAbortHandler)
}
