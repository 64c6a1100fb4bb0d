package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
	"github.com/signalbox-dev/signalbox/services/inference/internal/usage"
)

// respond relays the engine's response to the caller as it arrives.
func (e *exchange) respond(ctx context.Context, a *engineclient.Response) {
	defer e.client.settle()         // for the next request on the connection
	stop := e.client.cutWrites(ctx) // when the call ends, a write that a slow caller blocks is interrupted
	e.client.begin(a.Status, callerHeader(a.Header, e.redirect(), e.a.requestID), a.Length, e.endsConnection())
	e.rec.Status = int32(a.Status)
	stream := isStream(a.Header)
	body := &e.found
	body.Start(stream, a.Header, e.defect)
	defer body.Close()
	e.rec.Stream = e.rec.Stream || stream
	err := e.pump(a, body)
	if err == nil {
		err = e.client.end(partHeader(a.Trailer, a.Header, e.redirect()))
	}
	stop() // an interruption that comes late would cut the last event of an event stream, and the next response
	end := endingOf(ctx, a.Status, err, a.Close())
	e.noteRequest()
	found := body.Close()
	noteResponse(e.rec, found)
	end.failed = found.Failed
	e.rec.Outcome = end.outcome()
	if err != nil {
		e.cut(ctx, body)
	}
	e.record(ctx)
}

// endsConnection reports whether the caller's connection must end with the response: net/http cannot read another request
// after a streamed body that was not read to its end (golang/go#68560).
func (e *exchange) endsConnection() bool { return e.upload != nil && !e.upload.ended.Load() }

// informational relays a 1xx response, unless the request body is streamed. Its headers do not become headers of the final
// response.
func (e *exchange) informational(status int, header httprelay.Header) {
	if e.upload != nil {
		return // another goroutine may be reading the body, which makes the server write its own 100 Continue
	}
	e.client.inform(status, partHeader(header, header, e.redirect()))
}

// pump copies the body to the caller until its end. Each part is sent at once. The parameter body reads what the caller
// got.
func (e *exchange) pump(a *engineclient.Response, body *usage.Response) error {
	if a.Length < 0 && !a.Arrived() {
		// Send the head, because the first byte of the body may take a while.
		if err := e.client.write(nil, false); err != nil {
			return err
		}
	}
	for {
		a.Wait()
		ended, err := e.pass(a, body)
		if ended || err != nil {
			return err
		}
	}
}

// pass copies the part of the body that has arrived, and reports whether the body has ended.
func (e *exchange) pass(a *engineclient.Response, body *usage.Response) (ended bool, err error) {
	taken := e.takeBuffer()
	defer e.giveBuffer(taken)
	buf := *taken
	n, err := a.Read(buf[:chunk])
	ended = errors.Is(err, io.EOF)
	if n > 0 {
		if e.rec.TTFT == nil {
			ms := e.elapsed()
			e.rec.TTFT = &ms
		}
		if e.a.capture != nil {
			e.a.capture.Response(buf[:n])
		}
		if err := e.client.write(buf[:n], ended); err != nil {
			return ended, err
		}
		e.rec.ResponseBytes += int64(n)
		body.Take(buf[:n])
	}
	if ended {
		err = nil
	}
	return ended, err
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
	e.client.farewell(append(append([]byte("data: "), data...), "\n\n"...))
}

// lastError is the error object in the final event of a cut stream; see exchange.last.
type lastError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code"`
}

// cut ends a response that is truncated: the connection is cut, so that the response does not look complete.
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
	e.aborted = true
}
