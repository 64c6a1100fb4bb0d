// Package relay carries one HTTP/1.1 exchange to an engine over a pooled connection and hands back the
// answer as it comes: nothing is buffered, parsed or rewritten on the way. A pooled connection that the
// engine has closed meanwhile is replaced once, as long as no byte of an answer came; beyond that
// nothing is repeated.
package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Timeouts bound the parts of an exchange; a total does not, because a stream may run for long.
type Timeouts struct {
	Connect   time.Duration
	FirstByte time.Duration
	Idle      time.Duration
}

var (
	// ErrUnreachable says that no connection could be made and nothing was sent.
	ErrUnreachable = errors.New("the engine cannot be reached")
	// ErrSilent says that the engine did not begin to answer in time.
	ErrSilent = errors.New("the engine did not answer in time")
	// ErrBroken says that the connection ended before an answer.
	ErrBroken = errors.New("the engine closed the connection without an answer")
)

// Request is what is sent. Header holds exactly what the engine shall see.
type Request struct {
	Method string
	// Target is the path with its query, as it goes onto the wire.
	Target *url.URL
	Header http.Header
	// Body is nil for none. Replay gives it again from its start, nil where it cannot.
	Body   io.Reader
	Replay func() io.Reader
	// Length of the body, -1 for unknown.
	Length int64
}

// Answer is the engine's; Body must be read to its end or the Answer closed.
type Answer struct {
	Response *http.Response

	ex   *exchange
	done bool
}

// Client relays to engines.
type Client struct {
	Timeouts Timeouts
	Clock    clock.Clock

	pool pool
}

const (
	bufferSize = 32 << 10
	// maxInformational bounds 1xx answers, which an engine could send without end.
	maxInformational = 8
	// maxHeader bounds the head of an answer.
	maxHeader = 64 << 10
)

// exchange is one use of one connection.
type exchange struct {
	client *Client
	conn   *link
	stop   func() bool // of the watch on the context
	sent   chan error  // the result of sending, once
	keep   bool
}

// Do sends the request and answers when the engine's head is there. The context's end cuts the exchange
// at any point, also while the body of the answer is read.
func (c *Client) Do(ctx context.Context, addr string, in Request) (*Answer, error) {
	for {
		conn, pooled, err := c.connect(ctx, addr)
		if err != nil {
			return nil, err
		}
		answer, err := c.try(ctx, conn, in)
		if err == nil {
			return answer, nil
		}
		_ = conn.Close()
		if !pooled || !errors.Is(err, ErrBroken) || ctx.Err() != nil || (in.Body != nil && in.Replay == nil) {
			return nil, err
		}
		if in.Replay != nil {
			in.Body = in.Replay()
		}
	}
}

func (c *Client) connect(ctx context.Context, addr string) (*link, bool, error) {
	if conn := c.pool.get(addr); conn != nil {
		return conn, true, nil
	}
	dialer := net.Dialer{Timeout: c.Timeouts.Connect}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return newLink(raw, addr), false, nil
}

// try runs the exchange on one connection up to the head of the answer.
func (c *Client) try(ctx context.Context, conn *link, in Request) (*Answer, error) {
	ex := &exchange{client: c, conn: conn, sent: make(chan error, 1)}
	ex.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(past) })
	go func() { ex.sent <- send(conn, in) }()
	resp, err := ex.head(in.Method)
	if err != nil {
		ex.stop()
		_ = conn.Close()
		<-ex.sent
		return nil, ex.explain(ctx, err)
	}
	ex.keep = !resp.Close
	return &Answer{Response: resp, ex: ex}, nil
}

// past is a deadline that is over.
var past = time.Unix(1, 0) //nolint:gochecknoglobals // a constant of the standard library's type.

func send(conn net.Conn, in Request) error {
	out := bufio.NewWriterSize(conn, bufferSize)
	req := &http.Request{
		Method: in.Method, URL: in.Target, Host: "engine", Header: in.Header, ContentLength: in.Length,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if in.Body != nil {
		req.Body = io.NopCloser(in.Body)
	}
	if err := req.Write(out); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	return nil
}

// head reads the final head of the answer.
func (e *exchange) head(method string) (*http.Response, error) {
	if err := e.conn.SetReadDeadline(e.client.Clock.Now().Add(e.client.Timeouts.FirstByte)); err != nil {
		return nil, fmt.Errorf("set a deadline: %w", err)
	}
	for range maxInformational {
		if _, err := e.conn.in.Peek(1); err != nil {
			return nil, fmt.Errorf("%w: %w", errNothing, err)
		}
		e.conn.left = maxHeader
		resp, err := http.ReadResponse(e.conn.in, &http.Request{Method: method})
		e.conn.left = -1
		if err != nil {
			return nil, fmt.Errorf("read the engine's answer: %w", err)
		}
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
	return nil, errors.New("the engine sends informational answers only")
}

// errNothing marks an exchange that ended before any byte of an answer.
var errNothing = errors.New("no byte of an answer")

func (e *exchange) explain(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
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

// Close gives the connection back where the answer was read to its end and the request was sent whole;
// else it closes it. It waits for the sending.
func (a *Answer) Close() error {
	uncut := a.ex.stop()
	if !a.done || !a.ex.keep || !uncut {
		_ = a.ex.conn.Close()
		<-a.ex.sent
		return nil
	}
	select {
	case err := <-a.ex.sent:
		if err == nil && a.ex.conn.SetDeadline(time.Time{}) == nil {
			a.ex.client.pool.put(a.ex.conn)
			return nil
		}
	default:
		// The engine answered before it had read all: the connection is of no more use.
		_ = a.ex.conn.Close()
		<-a.ex.sent
		return nil
	}
	return a.ex.conn.Close()
}

// CloseIdle closes all pooled connections.
func (c *Client) CloseIdle() { c.pool.closeAll() }
