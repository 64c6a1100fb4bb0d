package engineclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	bufferSize = 32 << 10
	// maxInformational is the maximum number of responses to one request, including the final one. Without this limit,
	// an engine could send 1xx responses forever.
	maxInformational = 8
	// maxHeader is the maximum size of a response's status line and headers, in bytes.
	maxHeader = 64 << 10
	// inline is the size up to which a body is sent before the response is read, in bytes. The buffers of a connection
	// hold a request of this size, so sending it cannot block, even if the engine does not read it.
	inline = 16 << 10
)

var (
	// errNothing means that an exchange ended before the first byte of a response.
	errNothing = errors.New("no byte received")
	// errStale means that a pooled connection was lost and that the engine cannot have taken the request.
	errStale = errors.New("the engine had closed the connection")
	errForm  = errors.New("the engine's response is not valid HTTP")
)

// deadline returns a deadline for a connection. It uses the real clock, because package net compares it with the real
// time.
func deadline(within time.Duration) time.Time { return clock.Real().Now().Add(within) }

// exchange is one request and its response on one connection.
type exchange struct {
	client *Client
	conn   *link
	in     Request
	waits  Waits
	stop   func() bool // cancels the context.AfterFunc that closes conn
	sent   chan error  // receives the result of send, once
	keep   bool

	// wrote is when the last write to conn that took a byte began, zero if none did: the end of a write is read too late if
	// the engine already works by then. stuck is true if a write exceeded Timeouts.Send. Both may be read after send has
	// ended.
	wrote time.Time
	stuck bool

	mu      sync.Mutex
	reading bool // the headers have arrived; from now on only the reader of the body sets read deadlines
	over    bool // the context has ended
}

// Response is the engine's response. The caller reads the body through Read and must call Close.
type Response struct {
	HTTP *http.Response

	ex   *exchange
	done bool
}

// try sends the request on one connection and returns when the headers of the response have arrived. If it fails, it
// closes the connection, at least for writing.
func (c *Client) try(ctx context.Context, conn *link, in Request) (*Response, error) {
	ex := &exchange{client: c, conn: conn, in: in, waits: c.waits(in.Waits), sent: make(chan error, 1)}
	conn.received, conn.late = false, false
	ex.stop = context.AfterFunc(ctx, ex.cut)
	if in.Interrupt == nil && (in.Body == nil || in.Length >= 0 && in.Length <= inline) {
		ex.sent <- ex.send() // neither reading the body nor writing it can block
	} else {
		// The engine may respond before it has read the body.
		go func() { ex.sent <- ex.send() }()
	}
	resp, err := ex.head() //nolint:bodyclose // Response.Close closes it.
	if err != nil {
		at := c.Clock.Now()
		ex.stop()
		return nil, ex.explain(ctx, err, ex.leave(err), at)
	}
	ex.keep = !resp.Close && !unexpectedBody(resp)
	return &Response{HTTP: resp, ex: ex}, nil
}

// unexpectedBody reports whether a response announces a body although its status excludes one: the bytes of the body would
// be read as the response to the next request.
func unexpectedBody(r *http.Response) bool {
	length := r.Header.Get("Content-Length")
	return r.StatusCode == http.StatusNoContent && (len(r.TransferEncoding) > 0 || length != "" && length != "0")
}

// end closes the connection, waits for send and returns its result.
func (e *exchange) end() error {
	_ = e.conn.Close()
	if e.in.Interrupt != nil {
		e.in.Interrupt()
	}
	return <-e.sent
}

// leave ends an exchange that failed with err before the headers of a response, and returns the result of send. If the
// engine has the whole request and may still work on it, leave hands the connection to Client.abandoned.
func (e *exchange) leave(err error) error {
	if e.in.aside || !errors.Is(err, errNothing) || !e.conn.late {
		return e.end()
	}
	select {
	case sent := <-e.sent:
		if sent != nil {
			_ = e.conn.Close()
			return sent
		}
		e.client.abandoned.add(e.conn, e.client.Clock.Now(), e.waits.FirstByte)
		return nil
	default: // the request is still being sent
		return e.end()
	}
}

// source reads the request body. It stores a read error, so that this error can be distinguished from one of the
// connection.
type source struct {
	in  io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// paced sets a new deadline for each write.
type paced struct{ *exchange }

func (p paced) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(deadline(p.client.Timeouts.Send)); err != nil {
		return 0, fmt.Errorf("set a deadline: %w", err)
	}
	at := p.client.Clock.Now()
	n, err := p.conn.Write(b)
	if n > 0 {
		p.wrote = at
	}
	p.stuck = errors.Is(err, os.ErrDeadlineExceeded) // net/http hides this error
	return n, err
}

func (e *exchange) send() error {
	out, done := e.client.writer(paced{e})
	defer done()
	req := &http.Request{
		Method: e.in.Method, URL: e.in.Target, Host: e.conn.to.Addr, Header: e.in.Header, ContentLength: e.in.Length,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	body := &source{in: e.in.Body}
	if e.in.Body != nil {
		req.Body = io.NopCloser(body)
	}
	err := req.Write(out)
	if err == nil {
		err = out.Flush()
	}
	switch {
	case body.err != nil:
		// Close the connection, so that the engine does not act on a partial body and the method head stops waiting
		// for a response.
		_ = e.conn.Close()
		return fmt.Errorf("%w: %w", ErrRequestBody, body.err)
	case err != nil:
		// The engine may have responded before it closed the connection, so its response is still read.
		err = fmt.Errorf("send the request: %w", err)
	}
	within := e.waits.FirstByte
	if e.stuck {
		within = 0 // the engine does not take the request, so it will not respond to it
	}
	return errors.Join(err, e.awaitHead(within))
}

// awaitHead limits the time until the headers of the response, unless they have already arrived or nothing waits for
// them.
func (e *exchange) awaitHead(within time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading || e.over {
		return nil
	}
	if err := e.conn.SetReadDeadline(deadline(within)); err != nil {
		return fmt.Errorf("set a deadline: %w", err)
	}
	return nil
}

func (e *exchange) headRead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading = true; e.over {
		_ = e.conn.Close()
	}
}

// cut ends the exchange because its context has ended. If the response has begun, cut closes the connection. Otherwise
// it only ends reads and writes, and the method leave decides what happens to the connection: the engine may still work
// on the request, see abandoned.
func (e *exchange) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over = true; e.reading {
		_ = e.conn.Close()
		return
	}
	e.conn.cut()
}

// head reads the status line and headers of the final response. It passes 1xx responses, except 100 Continue, to
// Informational.
func (e *exchange) head() (*http.Response, error) {
	for range maxInformational {
		if _, err := e.conn.in.Peek(1); err != nil {
			return nil, fmt.Errorf("%w: %w", errNothing, err)
		}
		e.conn.left = maxHeader
		resp, err := http.ReadResponse(e.conn.in, &http.Request{Method: e.in.Method})
		e.conn.left = -1
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the engine's response: %w", err)
		case resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols && e.in.Upgrade:
			e.headRead()
			return resp, nil
		case resp.StatusCode < http.StatusContinue || resp.StatusCode == http.StatusSwitchingProtocols:
			// Either the status is not valid, or the engine switched protocols although the request does not allow it.
			// The bytes that follow are then not HTTP.
			return nil, fmt.Errorf("%w: status %d", errForm, resp.StatusCode)
		case e.in.Informational != nil && resp.StatusCode > http.StatusSwitchingProtocols:
			e.in.Informational(resp.StatusCode, resp.Header)
		}
	}
	return nil, fmt.Errorf("%w: too many informational responses", errForm)
}

// explain returns the error of an exchange that got no response. The parameter err is the error of reading the
// response, at is the time of this error, and sent is the error of sending the request.
func (e *exchange) explain(ctx context.Context, err, sent error, at time.Time) error {
	unsent := e.wrote.IsZero()
	again := e.in.Body == nil || e.in.Replay != nil
	switch {
	case errors.Is(sent, ErrRequestBody):
		return sent
	case ctx.Err() != nil && unsent:
		return fmt.Errorf("%w: %w", ErrUnsent, context.Cause(ctx))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.conn.late: // net/http hides the error of a read within the headers
		return ErrTimeout
	case !errors.Is(err, errNothing):
		return err
	case unsent && again && e.conn.reused:
		return fmt.Errorf("%w: %w: %w", errStale, ErrUnsent, err)
	case unsent && again:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case again && e.conn.reused && !e.conn.received && at.Sub(e.wrote) <= lostWithin:
		return fmt.Errorf("%w: %w", errStale, err)
	}
	return fmt.Errorf("%w: %w", ErrConnectionLost, err)
}

// Read reads the body of the response. It returns io.EOF only at the end of a complete body; any other error
// means that the body is truncated. The error wraps ErrTimeout if the engine paused for too long.
func (a *Response) Read(p []byte) (int, error) {
	a.ex.conn.wait.hold(false)
	if err := a.ex.conn.SetReadDeadline(deadline(a.ex.waits.Idle)); err != nil {
		return 0, fmt.Errorf("set a deadline: %w", err)
	}
	n, err := a.HTTP.Body.Read(p)
	if errors.Is(err, io.EOF) {
		a.done = true
		return n, io.EOF
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, fmt.Errorf("%w: read its response: %w", ErrTimeout, err)
	}
	if err != nil {
		return n, fmt.Errorf("read the engine's response: %w", err)
	}
	a.ex.conn.wait.hold(n > 0)
	return n, nil
}

// Take returns the connection of an upgraded exchange and the reader with its buffered bytes. From then on, the
// caller must close the connection, because the end of the context no longer closes it. If the exchange was already
// cut or sending the request failed, Take closes the connection and returns false.
func (a *Response) Take() (net.Conn, *bufio.Reader, bool) {
	a.ex.conn.wait.end() // both sides of an upgraded connection may be silent for long
	uncut := a.ex.stop()
	if err := <-a.ex.sent; err != nil || !uncut || a.ex.conn.SetDeadline(time.Time{}) != nil {
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
	return a.HTTP.StatusCode >= http.StatusMultipleChoices && a.ex.in.Body != nil && a.ex.in.Length != 0
}

// sendEnds is how long the end of a response waits for the end of send, unless send reads from the caller: the engine may
// have read the last byte of the request before send has returned.
const sendEnds = 10 * time.Millisecond

// ended reports whether send has ended, and returns its result.
func (e *exchange) ended() (bool, error) {
	select {
	case err := <-e.sent:
		return true, err
	default:
	}
	if e.in.Interrupt != nil {
		return false, nil
	}
	timer := e.client.Clock.NewTimer(sendEnds)
	defer timer.Stop()
	select {
	case err := <-e.sent:
		return true, err
	case <-timer.C():
		return false, nil
	}
}
