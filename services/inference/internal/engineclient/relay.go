// Package engineclient owns the connections to engines. It runs one HTTP/1.1 exchange over a pooled connection and
// returns the response as it arrives: the body is not buffered, parsed or rewritten. An engine on another host is
// reached only over mutual TLS. A peer whose certificate is not that of the expected node counts as unreachable.
//
// The package also finds engines that hang: it measures how long no call got a byte, probes the suspected engine, and
// then requests its replacement.
//
// A request is sent again only if the engine cannot have taken it: a pooled connection was lost within lostWithin of the
// last byte written, without a byte received, and the body can be sent again. The request is then repeated once, to the
// same engine on a new connection. No other request is repeated, because the engine may work on it. When an exchange has
// ended, the goroutine that sends its request has ended too.
package engineclient

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// Timeouts limit the parts of an exchange. There is no total timeout, because a stream may run for a long time.
type Timeouts struct {
	Connect time.Duration
	// Send limits each pause in which the engine takes no part of the request.
	Send time.Duration
	// FirstByte and Idle apply to requests whose Waits are 0.
	FirstByte, Idle time.Duration
}

// Waits limit how long a call waits for an engine's response.
type Waits struct {
	// FirstByte limits the time from the end of the request to the headers of the response.
	FirstByte time.Duration
	// Idle limits each pause within the body of the response.
	Idle time.Duration
}

// waits returns w with the client's timeouts in place of those that are 0.
func (c *Client) waits(w Waits) Waits {
	return Waits{FirstByte: cmp.Or(w.FirstByte, c.Timeouts.FirstByte), Idle: cmp.Or(w.Idle, c.Timeouts.Idle)}
}

// lostWithin is the time after the last byte written within which the loss of a pooled connection shows that the engine
// had closed it and did not take the request.
const lostWithin = 50 * time.Millisecond

var (
	// ErrUnreachable means that no connection could be opened, or that it was lost before anything was sent. Another
	// engine may get the request.
	ErrUnreachable = errors.New("the engine is unreachable")
	// ErrUnsent means that nothing was sent. If the context has ended, its cause is wrapped, too.
	ErrUnsent = errors.New("nothing was sent to the engine")
	// ErrTimeout means that the engine did not take the request, begin its response or continue it in time.
	ErrTimeout = errors.New("the engine did not respond in time")
	// ErrConnectionLost means that the connection ended before the first byte of a response.
	ErrConnectionLost = errors.New("the engine closed the connection without a response")
	// ErrRequestBody means that the request body could not be read. The cause is wrapped, too.
	ErrRequestBody = errors.New("read the request body")
)

// Request is the request to send.
type Request struct {
	Method string
	// Target is the path and query of the request line.
	Target string
	// Header is sent unchanged, after Host and the line that announces the body.
	Header httprelay.Header
	// Body may be nil. Replay returns the body again from its beginning; it is nil if that is impossible.
	Body   io.Reader
	Replay func() io.Reader
	// Interrupt makes a blocked Read of Body return; it is nil if Read cannot block. If it is set, Body is sent in
	// the background, while the response is read.
	Interrupt func()
	// Length is the length of the body, -1 if unknown.
	Length int64
	// Waits replace the client's timeouts, except those that are 0.
	Waits Waits
	// Upgrade allows the engine to switch to the protocol that Header requests.
	Upgrade bool
	// Informational receives the 1xx responses that precede the final one, except 100 Continue. The function may be nil.
	Informational func(status int, header httprelay.Header)

	// aside is true for a request for metrics: a response to it does not show that the engine can serve calls.
	aside bool
}

// Engine is the address of an engine. An engine on this host is reached over plain HTTP, and an engine on another host
// through the port of its node.
type Engine struct {
	// Addr is host:port.
	Addr string
	// Node is the identity that the peer must prove over mutual TLS; empty for plain HTTP.
	Node string
}

// Client relays requests to engines.
type Client struct {
	Timeouts Timeouts
	Clock    clock.Clock
	// TLS returns the configuration for a connection to a node's port; nil if all engines run on this host.
	TLS func(node string) *tls.Config

	pool      pool
	silences  silences
	abandoned abandoned
	writers   sync.Pool // of *bufio.Writer with bufferSize, see takeWriter
}

// takeWriter returns a buffered writer to w. It must be given back when nothing is written to it any more.
func (c *Client) takeWriter(w io.Writer) *bufio.Writer {
	out, ok := c.writers.Get().(*bufio.Writer)
	if !ok {
		out = bufio.NewWriterSize(nil, bufferSize)
	}
	out.Reset(w)
	return out
}

func (c *Client) giveWriter(out *bufio.Writer) {
	out.Reset(nil) // also forgets an error, and what was not written because of it
	c.writers.Put(out)
}

// Do sends the request and returns when the headers of the response have arrived. When ctx ends, the exchange is cut,
// even while the body of the response is read.
func (c *Client) Do(ctx context.Context, to Engine, in Request) (*Response, error) {
	w := c.silences.begin(to, c.Clock)
	answer, err := c.do(ctx, to, in, w)
	if errors.Is(err, ErrUnreachable) {
		w.byte() // a failed connection is not silence: the call did not wait for the engine
	}
	if err != nil {
		w.end()
	}
	return answer, err
}

func (c *Client) do(ctx context.Context, to Engine, in Request, w *wait) (*Response, error) {
	// A body that cannot be sent again must not use a pooled connection, because the engine may just have closed it.
	if in.Body == nil || in.Replay != nil {
		if conn := c.pool.get(to); conn != nil {
			conn.wait = w
			conn.reused = true
			answer, err := c.try(ctx, conn, in)
			if !errors.Is(err, errStale) {
				return answer, err
			}
			return c.again(ctx, to, in, w, err)
		}
	}
	conn, err := c.dial(ctx, to)
	if err != nil {
		return nil, err
	}
	conn.wait = w
	return c.try(ctx, conn, in)
}

// again repeats a request on a new connection after a pooled one was lost with the error stale.
func (c *Client) again(ctx context.Context, to Engine, in Request, w *wait, stale error) (*Response, error) {
	if in.Replay != nil {
		in.Body = in.Replay()
	}
	conn, err := c.dial(ctx, to)
	switch {
	case err != nil && errors.Is(stale, ErrUnsent):
		return nil, err
	case err != nil:
		// A part of the request may have reached this engine, so the error must not be ErrUnreachable: the caller would
		// then send the request to another engine, too.
		return nil, fmt.Errorf("%w; a new connection failed: %s", ErrConnectionLost, err.Error())
	}
	conn.wait = w
	return c.try(ctx, conn, in)
}

// CloseStale closes connections that have been idle for longer than maxIdleFor, so that no connection to a removed
// engine remains. It also closes connections of abandoned calls that are no longer needed. It always returns nil.
func (c *Client) CloseStale(context.Context) error {
	c.pool.closeBefore(c.Clock.Now().Add(-maxIdleFor))
	c.hearAbandoned()
	return nil
}

// hearAbandoned records the bytes that engines have sent to abandoned calls.
func (c *Client) hearAbandoned() {
	now := c.Clock.Now()
	for _, to := range c.abandoned.heard(now) {
		c.silences.byte(to, now)
	}
}

// CloseIdle closes all connections that no call uses.
func (c *Client) CloseIdle() {
	c.pool.closeAll()
	c.abandoned.closeAll()
}
