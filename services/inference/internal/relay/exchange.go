package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	bufferSize = 32 << 10
	// maxInformational bounds 1xx answers, which an engine could send without end.
	maxInformational = 8
	// maxHeader bounds the head of an answer.
	maxHeader = 64 << 10
)

var (
	// errNothing marks an exchange that ended before any byte of an answer.
	errNothing = errors.New("no byte of an answer")
	errForm    = errors.New("the engine's answer is not one of HTTP")
)

// exchange is one use of one connection.
type exchange struct {
	client *Client
	conn   *link
	in     Request
	stop   func() bool // of the watch on the context
	sent   chan error  // the result of sending, once
	keep   bool

	mu      sync.Mutex
	reading bool // the head is there: the deadlines are the reader's
}

// Answer is the engine's; Body must be read to its end or the Answer closed.
type Answer struct {
	Response *http.Response

	ex   *exchange
	done bool
}

// try runs the exchange on one connection up to the head of the answer; it closes the connection where
// it fails.
func (c *Client) try(ctx context.Context, conn *link, in Request) (*Answer, error) {
	ex := &exchange{client: c, conn: conn, in: in, sent: make(chan error, 1)}
	// Closing, and not a deadline, because a deadline could be set anew right after.
	ex.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if in.Interrupt == nil {
		// Nothing of it can block on the caller, so it needs no goroutine.
		ex.sent <- ex.send()
	} else {
		go func() { ex.sent <- ex.send() }()
	}
	resp, err := ex.head() //nolint:bodyclose // its end is the Answer's.
	if err != nil {
		ex.stop()
		return nil, ex.explain(ctx, err, ex.end())
	}
	ex.keep = !resp.Close
	return &Answer{Response: resp, ex: ex}, nil
}

// end closes the connection and answers what became of the sending.
func (e *exchange) end() error {
	_ = e.conn.Close()
	if e.in.Interrupt != nil {
		e.in.Interrupt()
	}
	return <-e.sent
}

// source tells a failure of the request's body from one of the connection.
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

// paced gives each write its own deadline.
type paced struct{ *exchange }

func (p paced) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(p.client.Clock.Now().Add(p.client.Timeouts.Idle)); err != nil {
		return 0, fmt.Errorf("set a deadline: %w", err)
	}
	return p.conn.Write(b)
}

func (e *exchange) send() error {
	out := bufio.NewWriterSize(paced{e}, bufferSize)
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
		// Half a body is no request: the engine must not act on it, nor the reader wait for it.
		_ = e.conn.Close()
		return fmt.Errorf("%w: %w", ErrSource, body.err)
	case err != nil:
		// The engine may have answered and closed: what it said is still read.
		err = fmt.Errorf("send the request: %w", err)
	}
	return errors.Join(err, e.awaitHead())
}

// awaitHead gives the engine its time for the head, from now on.
func (e *exchange) awaitHead() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading {
		return nil
	}
	if err := e.conn.SetReadDeadline(e.client.Clock.Now().Add(e.client.Timeouts.FirstByte)); err != nil {
		return fmt.Errorf("set a deadline: %w", err)
	}
	return nil
}

func (e *exchange) headRead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading = true
}

// head reads the final head of the answer.
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
			return nil, fmt.Errorf("read the engine's answer: %w", err)
		case resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols && e.in.Upgrade:
			e.headRead()
			return resp, nil
		case resp.StatusCode < http.StatusContinue || resp.StatusCode == http.StatusSwitchingProtocols:
			// No one asked for another protocol: what follows is not HTTP.
			return nil, fmt.Errorf("%w: status %d", errForm, resp.StatusCode)
		case e.in.Informational != nil && resp.StatusCode > http.StatusSwitchingProtocols:
			e.in.Informational(resp.StatusCode, resp.Header)
		}
	}
	return nil, fmt.Errorf("%w: informational answers only", errForm)
}

// explain is why an exchange got no head: reading failed with err, sending with sent.
func (e *exchange) explain(ctx context.Context, err, sent error) error {
	var timeout net.Error
	switch {
	case errors.Is(sent, ErrSource):
		return sent
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &timeout) && timeout.Timeout():
		return ErrSilent
	case errors.Is(err, errNothing):
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return err
}

// Read reads the body of the answer; io.EOF is its true end, any other error a cut.
func (a *Answer) Read(p []byte) (int, error) {
	if err := a.ex.conn.SetReadDeadline(a.ex.client.Clock.Now().Add(a.ex.client.Timeouts.Idle)); err != nil {
		return 0, fmt.Errorf("set a deadline: %w", err)
	}
	n, err := a.Response.Body.Read(p)
	if errors.Is(err, io.EOF) {
		a.done = true
		return n, io.EOF
	}
	if err != nil {
		return n, fmt.Errorf("read the engine's answer: %w", err)
	}
	return n, nil
}

// Take hands the connection of an upgraded exchange over, with what was read of it: its end is the taker's from
// then on, whatever becomes of the context. It answers false where the exchange was cut meanwhile.
func (a *Answer) Take() (net.Conn, *bufio.Reader, bool) {
	uncut := a.ex.stop()
	if err := <-a.ex.sent; err != nil || !uncut || a.ex.conn.SetDeadline(time.Time{}) != nil {
		_ = a.ex.conn.Close()
		return nil, nil, false
	}
	return a.ex.conn, a.ex.conn.in, true
}

// Close gives the connection back where the answer was read to its end and the request was sent whole;
// else it closes it. The sending has ended when it returns; its error is that of the sending.
func (a *Answer) Close() error {
	uncut := a.ex.stop()
	if !a.done || !a.ex.keep || !uncut {
		return a.ex.end()
	}
	select {
	case err := <-a.ex.sent:
		if err == nil && a.ex.conn.SetDeadline(time.Time{}) == nil {
			a.ex.client.pool.put(a.ex.conn, a.ex.client.Clock.Now())
			return nil
		}
		_ = a.ex.conn.Close()
		return err
	default:
		// The engine answered before it had read all: the connection is of no more use.
		return a.ex.end()
	}
}
