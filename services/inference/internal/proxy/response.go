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
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// respond relays the engine's response to the caller as it arrives.
func (e *exchange) respond(ctx context.Context, a *engineclient.Response) {
	resp := a.HTTP
	// When the call ends, a write that a slow caller blocks is interrupted. The deferred calls run in reverse order:
	// the interruption is stopped first, then settle resets the deadline for the next request on the connection.
	defer e.caller.settle()
	defer e.caller.cutWrites(ctx)()
	callerHeader(e.caller.w.Header(), resp.Header, e.a.requestID)
	e.closeAfterPart()
	e.caller.w.WriteHeader(resp.StatusCode)
	e.rec.Status, e.rec.Outcome = int32(resp.StatusCode), traffic.OK
	if resp.StatusCode >= http.StatusBadRequest {
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

// closeAfterPart ends the caller's connection with this response if the streamed request body was not read to its end:
// net/http cannot read another request after such a body (golang/go#68560).
func (e *exchange) closeAfterPart() {
	if e.upload != nil && !e.upload.ended.Load() {
		e.caller.w.Header().Set("Connection", "close")
	}
}

// informational relays a 1xx response, unless the request body is streamed. It passes only listed headers to the
// caller. They do not become headers of the final response.
func (e *exchange) informational(status int, header http.Header) {
	if e.upload != nil {
		return // another goroutine may be reading the body, which makes the server write its own 100 Continue
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

// pump copies the body to the caller until its end and flushes after each read.
func (e *exchange) pump(a *engineclient.Response, copied *tee) error {
	if a.HTTP.ContentLength < 0 {
		// Flush the headers, because the first byte of the body may take a while.
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

// last writes an error as the last event of an event stream that is cut. It does nothing if the response is not an
// event stream, or has a Content-Encoding (the parameter plain is then false). It begins a new event even if the engine
// stopped in the middle of one. It writes although the call has ended, with a short deadline.
func (e *exchange) last(copied *tee, plain bool, message, code string) {
	if !copied.stream || !plain {
		return
	}
	data, err := json.Marshal(map[string]any{"error": lastError{message, "server_error", code}})
	if err != nil {
		return
	}
	event := append(append([]byte("data: "), data...), "\n\n"...)
	if !copied.atBoundary() {
		event = append([]byte("\n\n"), event...)
	}
	e.caller.farewell(event) // an error does not matter: the connection is aborted anyway
}

// lastError is the error object in the final event of a cut stream; see exchange.last.
type lastError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code"`
}

// cut records why a response is truncated and aborts the connection, so that the response does not look complete. The
// parameter err is the error of relaying the response, and sent is the error of sending the request.
func (e *exchange) cut(ctx context.Context, err, sent error, copied *tee, plain bool) {
	cause := context.Cause(ctx)
	end, over := errors.AsType[*fault.Error](cause)
	switch {
	case over:
		e.rec.Outcome = traffic.SessionOver
		e.last(copied, plain, end.Text(), end.Code)
	case errors.Is(cause, routing.ErrRevoked):
		e.rec.Outcome = traffic.Revoked
	case errors.Is(cause, routing.ErrExpired):
		e.rec.Outcome = traffic.LeaseOver
	case errors.Is(cause, routing.ErrSuspended):
		e.rec.Outcome = traffic.Suspended
	case ctx.Err() != nil || errors.Is(err, errCaller) || errors.Is(sent, engineclient.ErrRequestBody):
		e.rec.Outcome = traffic.ClientClosed
	default:
		e.rec.Outcome = traffic.Truncated
		e.last(copied, plain, "the connection to the engine was lost", "engine_lost")
	}
	e.record(ctx)
	panic(http.ErrAbortHandler)
}
