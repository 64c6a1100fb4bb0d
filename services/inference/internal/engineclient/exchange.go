package engineclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
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
	sent   chan error  // receives the result of send, once; nil if send has ended with the error unsent
	unsent error
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

// try sends the request on one connection and returns when the headers of the response have arrived. If it fails, it
// closes the connection, at least for writing.
func (c *Client) try(ctx context.Context, conn *link, in Request) (*Response, error) {
	ex := &exchange{client: c, conn: conn, in: in, waits: c.waits(in.Waits)}
	conn.received, conn.late = false, false
	ex.stop = context.AfterFunc(ctx, ex.cut)
	if in.Interrupt == nil && (in.Body == nil || in.Length >= 0 && in.Length <= inline) {
		ex.unsent = ex.send() // neither reading the body nor writing it can block
	} else {
		// The engine may respond before it has read the body.
		ex.sent = make(chan error, 1)
		go func() { ex.sent <- ex.send() }()
	}
	resp, err := ex.head()
	if err != nil {
		at := c.Clock.Now()
		ex.stop()
		return nil, ex.explain(ctx, err, ex.leave(err), at)
	}
	return resp, nil
}

// end closes the connection, waits for send and returns its result.
func (e *exchange) end() error {
	_ = e.conn.Close()
	if e.in.Interrupt != nil {
		e.in.Interrupt()
	}
	return e.awaitSent()
}

// awaitSent waits until send has ended, and returns its result. It is called once.
func (e *exchange) awaitSent() error {
	if e.sent == nil {
		return e.unsent
	}
	return <-e.sent
}

// leave ends an exchange that failed with err before the headers of a response, and returns the result of send. If the
// engine has the whole request and may still work on it, leave hands the connection to Client.abandoned.
func (e *exchange) leave(err error) error {
	if e.in.aside || !errors.Is(err, errNothing) || !e.conn.late {
		return e.end()
	}
	if e.sent != nil {
		select {
		case e.unsent = <-e.sent:
			e.sent = nil
		default: // the request is still being sent
			return e.end()
		}
	}
	if e.unsent != nil {
		_ = e.conn.Close()
		return e.unsent
	}
	e.client.abandoned.add(e.conn, e.client.Clock.Now(), e.waits.FirstByte)
	return nil
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
	out := e.client.takeWriter(paced{e})
	defer e.client.giveWriter(out)
	_, err := out.Write(httprelay.AppendRequest(out.AvailableBuffer(), e.in.Method, e.in.Target, e.conn.to.Addr, e.in.Header, e.in.Length,
		e.in.Body != nil))
	if err == nil && e.in.Interrupt != nil {
		err = out.Flush() // the body may take a while, and the engine may refuse it because of the head
	}
	body := &source{in: e.in.Body}
	if err == nil && e.in.Body != nil {
		err = sendBody(out, body, e.in.Length)
	}
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

// errShort means that a body ended before its announced length.
var errShort = errors.New("the body is shorter than its Content-Length")

// sendBody sends a body of the given length, or in chunks if the length is negative.
func sendBody(out *bufio.Writer, body io.Reader, length int64) error {
	if length >= 0 {
		n, err := io.Copy(out, io.LimitReader(body, length))
		switch {
		case err == nil && n < length:
			err = errShort
		case err == nil:
			// The caller's side learns only from this read that the body has ended.
			if _, err = body.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
				err = nil
			}
		}
		return err //nolint:wrapcheck // send wraps it
	}
	part := make([]byte, bufferSize)
	for {
		n, err := body.Read(part)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err //nolint:wrapcheck // send reports it as that of the body
		}
		if _, err := out.Write(httprelay.AppendChunk(nil, part[:n])); err != nil {
			return err //nolint:wrapcheck // send wraps it
		}
		if ended {
			_, err := out.Write(httprelay.AppendLastChunk(nil, nil))
			return err //nolint:wrapcheck // send wraps it
		}
		if err := out.Flush(); err != nil { // the rest of the body may take a while
			return err //nolint:wrapcheck // send wraps it
		}
	}
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

// sendEnds is how long the end of a response waits for the end of send, unless send reads from the caller: the engine may
// have read the last byte of the request before send has returned.
const sendEnds = 10 * time.Millisecond

// ended reports whether send has ended, and returns its result.
func (e *exchange) ended() (bool, error) {
	if e.sent == nil {
		return true, e.unsent
	}
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
