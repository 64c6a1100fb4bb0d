package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
	"github.com/signalbox-dev/signalbox/services/inference/internal/usage"
)

// respond relays the engine's response to the caller as it arrives.
func (e *exchange) respond(ctx context.Context, a *engineclient.Response) {
	resp := a.HTTP
	// When the call ends, a write that a slow caller blocks is interrupted. The deferred calls run in reverse order:
	// the interruption is stopped first, then settle resets the deadline for the next request on the connection.
	defer e.caller.settle()
	defer e.caller.cutWrites(ctx)()
	callerHeader(e.caller.w.Header(), resp.Header, e.redirect(), e.a.requestID)
	e.closeAfterPart()
	e.caller.w.WriteHeader(resp.StatusCode)
	e.rec.Status = int32(resp.StatusCode)
	stream := isStream(resp.Header)
	body := usage.NewResponse(stream, resp.Header, e.defect)
	defer body.Close()
	e.rec.Stream = e.rec.Stream || stream
	err := e.pump(a, body)
	end := endingOf(ctx, resp.StatusCode, err, a.Close())
	e.noteRequest()
	found := body.Close()
	noteResponse(e.rec, found)
	end.failed = found.Failed
	e.rec.Outcome = end.outcome()
	if err == nil {
		callerTrailer(e.caller.w.Header(), resp.Trailer, resp.Header, e.redirect())
		e.record(ctx)
		return
	}
	e.cut(ctx, body)
}

// closeAfterPart ends the caller's connection with this response if the streamed request body was not read to its end:
// net/http cannot read another request after such a body (golang/go#68560).
func (e *exchange) closeAfterPart() {
	if e.upload != nil && !e.upload.ended.Load() {
		e.caller.w.Header().Set("Connection", "close")
	}
}

// informational relays a 1xx response, unless the request body is streamed. Its headers do not become headers of the final
// response.
func (e *exchange) informational(status int, header http.Header) {
	if e.upload != nil {
		return // another goroutine may be reading the body, which makes the server write its own 100 Continue
	}
	h := e.caller.w.Header()
	kept := maps.Clone(h)
	maps.Copy(h, partHeader(header, header, e.redirect()))
	e.caller.w.WriteHeader(status)
	clear(h)
	maps.Copy(h, kept)
}

// pump copies the body to the caller until its end and flushes after each read. The parameter body reads what the caller
// got.
func (e *exchange) pump(a *engineclient.Response, body *usage.Response) error {
	if a.HTTP.ContentLength < 0 {
		// Flush the headers, because the first byte of the body may take a while.
		if err := e.caller.write(nil); err != nil {
			return err
		}
	}
	buf, done := e.buffer()
	defer done()
	for {
		n, err := a.Read(buf)
		if n > 0 {
			if e.rec.TTFT == nil {
				ms := e.elapsed()
				e.rec.TTFT = &ms
			}
			if e.a.capture != nil {
				e.a.capture.Response(buf[:n])
			}
			if err := e.caller.write(buf[:n]); err != nil {
				return err
			}
			e.rec.ResponseBytes += int64(n)
			body.Take(buf[:n])
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// last writes an error as the last event of an event stream that is cut. It does nothing unless the caller got a
// response that ends with a complete event: after a part of an event, or in another kind of response, a client would
// read it as a part of the engine's data, and compressed data cannot be continued. Such a client only sees the end of
// the connection. The method last writes although the call has ended, with a short deadline.
func (e *exchange) last(body *usage.Response, message, code string) {
	if !body.AtBorder() {
		return
	}
	data, err := json.Marshal(map[string]any{"error": lastError{message, "server_error", code}})
	if err != nil {
		return
	}
	// An error does not matter: the connection is aborted anyway.
	e.caller.farewell(append(append([]byte("data: "), data...), "\n\n"...))
}

// lastError is the error object in the final event of a cut stream; see exchange.last.
type lastError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code"`
}

// cut ends a response that is truncated: it records the call and aborts the connection, so that the response does not
// look complete.
func (e *exchange) cut(ctx context.Context, body *usage.Response) {
	switch e.rec.Outcome {
	case traffic.SessionOver:
		end := fault.From(context.Cause(ctx))
		e.last(body, end.Text(), end.Code)
	case traffic.Timeout:
		e.last(body, "the engine did not send the rest of its response in time", "engine_timeout")
	case traffic.Truncated:
		e.last(body, "the connection to the engine was lost", "engine_lost")
	}
	e.record(ctx)
	panic(http.ErrAbortHandler)
}
