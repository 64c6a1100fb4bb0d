// Package relay carries one HTTP/1.1 exchange to an engine over a pooled connection and hands back the
// answer as it comes: nothing is buffered, parsed or rewritten on the way. An engine of another host is
// reached over mutual TLS only, and only where its node proves to be the one that was named; what is
// another's certificate is no engine at all. A pooled connection that the
// engine has closed meanwhile is replaced once, as long as no byte of an answer came and the body can be
// sent again; beyond that nothing is repeated. What sends a body has ended when the exchange has.
package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Timeouts bound the parts of an exchange; a total does not, because a stream may run for long.
type Timeouts struct {
	Connect time.Duration
	// FirstByte runs from when the request was sent whole.
	FirstByte time.Duration
	// Idle bounds each pause, of an answer and of a request's sending.
	Idle time.Duration
}

var (
	// ErrUnreachable says that no connection could be made and nothing was sent.
	ErrUnreachable = errors.New("the engine cannot be reached")
	// ErrSilent says that the engine did not begin to answer in time.
	ErrSilent = errors.New("the engine did not answer in time")
	// ErrBroken says that the connection ended before an answer.
	ErrBroken = errors.New("the engine closed the connection without an answer")
	// ErrSource says that the body of the request could not be read; its cause is wrapped beside it.
	ErrSource = errors.New("the body of the request broke off")
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
	// Interrupt makes a Read of Body that is under way return; nil where none can block. A Body with it
	// is sent while the answer is read already.
	Interrupt func()
	// Length of the body, -1 for unknown.
	Length int64
	// Upgrade says that the engine may switch to the protocol that Header asks for.
	Upgrade bool
	// Informational takes the answers of 1xx that come before the answer; it may be nil.
	Informational func(status int, header http.Header)
}

// Engine is where an engine answers: on this host in the open, or behind its node's own port.
type Engine struct {
	// Addr is host:port.
	Addr string
	// Node is the identity that the other end must prove over mutual TLS; empty for plain HTTP.
	Node string
}

// Client relays to engines.
type Client struct {
	Timeouts Timeouts
	Clock    clock.Clock
	// TLS is that of a connection to a node's port; nil where all engines share this host.
	TLS func(node string) *tls.Config

	pool pool
}

// Do sends the request and answers when the engine's head is there. The context's end cuts the exchange
// at any point, also while the body of the answer is read.
func (c *Client) Do(ctx context.Context, to Engine, in Request) (*Answer, error) {
	// A body that cannot be sent again must not meet a connection that the engine has just given up.
	if in.Body == nil || in.Replay != nil {
		if conn := c.pool.get(to); conn != nil {
			answer, err := c.try(ctx, conn, in)
			if err == nil || !errors.Is(err, ErrBroken) || ctx.Err() != nil {
				return answer, err
			}
			return c.again(ctx, to, in)
		}
	}
	conn, err := c.dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return c.try(ctx, conn, in)
}

// again repeats on a fresh connection what a stale one swallowed.
func (c *Client) again(ctx context.Context, to Engine, in Request) (*Answer, error) {
	if in.Replay != nil {
		in.Body = in.Replay()
	}
	conn, err := c.dial(ctx, to)
	if err != nil {
		// Something was sent before, so this engine is not merely out of reach: no other must get it.
		return nil, fmt.Errorf("%w: %w", ErrBroken, context.Cause(ctx))
	}
	return c.try(ctx, conn, in)
}

// CloseStale closes what has been idle for too long, so that no connection to a gone engine stays.
func (c *Client) CloseStale(context.Context) error {
	c.pool.closeBefore(c.Clock.Now().Add(-maxIdleFor))
	return nil
}

// CloseIdle closes all pooled connections.
func (c *Client) CloseIdle() { c.pool.closeAll() }
