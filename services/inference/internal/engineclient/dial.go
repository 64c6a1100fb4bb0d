package engineclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

var errNoTLS = errors.New("no TLS certificate is configured for engines on other hosts")

// dial opens a connection. The connect timeout includes the TLS handshake, in which the node proves its identity.
func (c *Client) dial(ctx context.Context, to Engine) (*link, error) {
	limited, cancel := context.WithTimeout(ctx, c.Timeouts.Connect)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(limited, "tcp", to.Addr)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	if to.Node == "" {
		return newLink(raw, raw, to), nil
	}
	secured, err := c.secure(limited, raw, to.Node)
	if err != nil {
		_ = raw.Close()
		return nil, unreachable(ctx, err)
	}
	return newLink(secured, raw, to), nil
}

func (c *Client) secure(ctx context.Context, raw net.Conn, node string) (*tls.Conn, error) {
	if c.TLS == nil {
		return nil, errNoTLS
	}
	secured := tls.Client(raw, c.TLS(node))
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("perform the TLS handshake with %s: %w", node, err)
	}
	return secured, nil
}

// unreachable returns the error of a failed dial: ErrUnsent and the cause of ctx if ctx has ended, otherwise
// ErrUnreachable.
func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrUnsent, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
