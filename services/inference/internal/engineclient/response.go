package engineclient

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// Response is the engine's response. The caller reads the body through Read and must call Close.
type Response struct {
	Status int
	// Header contains the lines of the head, without those that describe how the body is sent.
	Header httprelay.Header
	// Length is the length of the body, -1 if the head does not state it.
	Length int64
	// Trailer contains the lines after the body. It is set when Read has returned io.EOF.
	Trailer httprelay.Header

	ex      *exchange
	awaited bool // Wait was called since the last Read
	done    bool
	// The body is that of parsed, if it is set. Otherwise it has left more bytes, or is sent in chunks if left is negative.
	parsed *http.Response
	left   int64
	chunks httprelay.Chunks
}

// head reads the status line and headers of the final response. It passes 1xx responses, except 100 Continue, to
// Informational.
func (e *exchange) head() (*Response, error) {
	for range maxInformational {
		if _, err := e.conn.in.Peek(1); err != nil {
			return nil, fmt.Errorf("%w: %w", errNothing, err)
		}
		if resp := e.plainHead(); resp != nil {
			e.headRead()
			return resp, nil
		}
		e.conn.left = maxHeader
		resp, err := http.ReadResponse(e.conn.in, &http.Request{Method: e.in.Method}) //nolint:bodyclose // Close ends the connection or its response
		e.conn.left = -1
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the engine's response: %w", err)
		case resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols && e.in.Upgrade:
			e.headRead()
			e.keep = !resp.Close && !unexpectedBody(resp)
			trimLength(resp.Header)
			return &Response{Status: resp.StatusCode, Header: httprelay.HeaderOf(resp.Header), Length: resp.ContentLength, ex: e, parsed: resp}, nil
		case resp.StatusCode < http.StatusContinue || resp.StatusCode == http.StatusSwitchingProtocols:
			// Either the status is not valid, or the engine switched protocols although the request does not allow it.
			// The bytes that follow are then not HTTP.
			return nil, fmt.Errorf("%w: status %d", errForm, resp.StatusCode)
		case e.in.Informational != nil && resp.StatusCode > http.StatusSwitchingProtocols:
			e.in.Informational(resp.StatusCode, httprelay.HeaderOf(resp.Header))
		}
	}
	return nil, fmt.Errorf("%w: too many informational responses", errForm)
}

// plainHead reads the head of a response if it has arrived as a whole and is plain. Otherwise it reads nothing and returns
// nil.
func (e *exchange) plainHead() *Response {
	if e.in.Method == http.MethodHead {
		return nil // its response has a Content-Length, but no body
	}
	arrived, _ := e.conn.in.Peek(e.conn.in.Buffered()) // cannot fail, because it reads only the buffer
	end := bytes.Index(arrived, []byte("\r\n\r\n"))
	if end < 0 {
		return nil
	}
	end += len("\r\n\r\n")
	head, ok := httprelay.ParseResponse(arrived[:end])
	if !ok {
		return nil
	}
	_, _ = e.conn.in.Discard(end) // cannot fail, because the bytes are in the buffer
	e.keep = !head.Close
	return &Response{Status: head.Status, Header: head.Header, Length: head.Length, ex: e, left: head.Length}
}

// trimLength removes zeros at the beginning of a Content-Length, which a program behind Signalbox might take for another base.
func trimLength(h http.Header) {
	if length := h.Get("Content-Length"); len(length) > 1 && length[0] == '0' {
		h.Set("Content-Length", cmp.Or(strings.TrimLeft(length, "0"), "0"))
	}
}

// unexpectedBody reports whether a response announces a body although its status excludes one: the bytes of the body would
// be read as the response to the next request.
func unexpectedBody(r *http.Response) bool {
	length := r.Header.Get("Content-Length")
	return r.StatusCode == http.StatusNoContent && (len(r.TransferEncoding) > 0 || length != "" && length != "0")
}

// Arrived reports whether a part of the body has arrived, which Read returns at once. It may return false although one has.
func (a *Response) Arrived() bool {
	in := a.ex.conn.in
	if a.parsed != nil || a.left >= 0 {
		return a.parsed == nil && in.Buffered() > 0
	}
	arrived, _ := in.Peek(in.Buffered()) // cannot fail, because it reads only the buffer
	line := bytes.IndexByte(arrived, '\n')
	return line >= 0 && line+1 < len(arrived) // more than the size of a chunk
}

// Wait waits until a part of the body has arrived or cannot arrive, which Read then reports. Meanwhile, the caller needs no
// buffer.
func (a *Response) Wait() {
	if a.done || a.parsed != nil || a.left == 0 || a.Arrived() || a.await() != nil {
		return
	}
	a.awaited = true
	_, _ = a.ex.conn.in.Peek(1) // Read gets the error, too
}

// await begins to wait for the engine.
func (a *Response) await() error {
	a.ex.conn.wait.hold(false)
	if err := a.ex.conn.SetReadDeadline(deadline(a.ex.waits.Idle)); err != nil {
		return fmt.Errorf("set a deadline: %w", err)
	}
	return nil
}

// Read reads the body of the response. It returns io.EOF, maybe together with the last bytes, only at the end of a complete
// body; any other error means that the body is truncated. The error wraps ErrTimeout if the engine paused for too long.
func (a *Response) Read(p []byte) (int, error) {
	if a.done {
		return 0, io.EOF
	}
	if !a.awaited {
		if err := a.await(); err != nil {
			return 0, err
		}
	}
	a.awaited = false
	n, err := a.body(p)
	switch {
	case errors.Is(err, io.EOF):
		a.done = true
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, fmt.Errorf("%w: read its response: %w", ErrTimeout, err)
	case err != nil:
		return n, fmt.Errorf("read the engine's response: %w", err)
	}
	a.ex.conn.wait.hold(n > 0)
	return n, nil
}

// body reads the body, however it is sent.
func (a *Response) body(p []byte) (int, error) {
	switch {
	case a.parsed != nil:
		n, err := a.parsed.Body.Read(p)
		if errors.Is(err, io.EOF) {
			a.Trailer = httprelay.HeaderOf(a.parsed.Trailer)
		}
		return n, err //nolint:wrapcheck // Read wraps it
	case a.left < 0:
		return a.nextChunks(p)
	case a.left == 0:
		return 0, io.EOF
	}
	n, err := a.ex.conn.in.Read(p[:min(int64(len(p)), a.left)])
	switch a.left -= int64(n); {
	case a.left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, err //nolint:wrapcheck // Read wraps it
}

// nextChunks reads what has arrived of a body that is sent in chunks, at least one byte.
func (a *Response) nextChunks(p []byte) (n int, err error) {
	in := a.ex.conn.in
	for n == 0 {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		} else if err != nil {
			return 0, err //nolint:wrapcheck // Read wraps it
		}
		for n < len(p) && in.Buffered() > 0 {
			arrived, _ := in.Peek(min(in.Buffered(), len(p)-n)) // so that its data fits into p
			data, read, done, ok := a.chunks.Next(arrived)
			n += copy(p[n:], data)
			_, _ = in.Discard(read)
			if !ok {
				return n, errForm
			}
			if done {
				return n, a.endChunks()
			}
		}
	}
	return n, nil
}

// endChunks returns io.EOF, or an error if the trailer is malformed.
func (a *Response) endChunks() error {
	trailer, ok := a.chunks.Trailer()
	if !ok {
		return errForm
	}
	a.Trailer = trailer
	return io.EOF
}

// Take returns the connection of an upgraded exchange and the reader with its buffered bytes. From then on, the
// caller must close the connection, because the end of the context no longer closes it. If the exchange was already
// cut or sending the request failed, Take closes the connection and returns false.
func (a *Response) Take() (net.Conn, *bufio.Reader, bool) {
	a.ex.conn.wait.end() // both sides of an upgraded connection may be silent for long
	uncut := a.ex.stop()
	if err := a.ex.awaitSent(); err != nil || !uncut || a.ex.conn.SetDeadline(time.Time{}) != nil {
		_ = a.ex.conn.Close()
		return nil, nil, false
	}
	return a.ex.conn, a.ex.conn.in, true
}

// Close returns the connection to the pool if the request was sent completely, the response was read to its end, the
// engine keeps the connection open and has certainly read the request. Otherwise it closes the connection. Close waits
// until sending has ended and returns the error of sending.
func (a *Response) Close() error {
	a.ex.conn.wait.end()
	uncut := a.ex.stop()
	if !a.done || !a.ex.keep || !uncut || a.refusedBody() {
		return a.ex.end()
	}
	ended, sent := a.ex.ended()
	if !ended {
		// The engine responded before it had read the whole request, so the connection cannot be reused.
		return a.ex.end()
	}
	if sent == nil && a.ex.conn.SetDeadline(time.Time{}) == nil {
		a.ex.client.pool.put(a.ex.conn, a.ex.client.Clock.Now())
		return nil
	}
	_ = a.ex.conn.Close()
	return sent
}

// refusedBody reports whether the response refuses or redirects a request with a body. The engine may not have read the
// body, although the buffers of the connection hold all of it, and the next request would wait behind it.
func (a *Response) refusedBody() bool {
	return a.Status >= http.StatusMultipleChoices && a.ex.in.Body != nil && a.ex.in.Length != 0
}
