package engineclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// deadConn is a connection that the peer has reset: it takes no byte and returns none.
type deadConn struct{ net.Conn }

var errReset = errors.New("connection reset by peer")

func (deadConn) Read([]byte) (int, error)         { return 0, errReset }
func (deadConn) Write([]byte) (int, error)        { return 0, errReset }
func (deadConn) SetDeadline(time.Time) error      { return nil }
func (deadConn) SetReadDeadline(time.Time) error  { return nil }
func (deadConn) SetWriteDeadline(time.Time) error { return nil }
func (deadConn) Close() error                     { return nil }

// If not even the first byte was written, another engine may get the request, provided that its body can be sent again.
func TestLostBeforeFirstByteWritten(t *testing.T) {
	t.Parallel()
	body := func() io.Reader { return strings.NewReader("x") }
	for name, tc := range map[string]struct {
		reused bool
		in     Request
		want   error
	}{
		"new connection":  {false, Request{Body: body(), Replay: body, Length: 1}, ErrUnreachable},
		"no body":         {false, Request{}, ErrUnreachable},
		"streamed body":   {false, Request{Body: body(), Length: 1}, ErrConnectionLost},
		"used connection": {true, Request{Body: body(), Replay: body, Length: 1}, ErrUnsent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Client{Timeouts: Timeouts{Send: time.Minute, FirstByte: time.Minute}, Clock: clock.Real()}
			conn := newLink(deadConn{}, deadConn{}, Engine{})
			conn.reused = tc.reused
			tc.in.Method, tc.in.Target = http.MethodPost, "/"
			_, err := c.try(t.Context(), conn, tc.in)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, tc.reused, errors.Is(err, errStale))
		})
	}
}

// The context ends before anything was sent.
func TestEndBeforeFirstByteWritten(t *testing.T) {
	t.Parallel()
	ctx, cut := context.WithCancelCause(t.Context())
	cut(errReset)
	c := &Client{Timeouts: Timeouts{Connect: time.Minute}, Clock: clock.Real()}
	_, err := c.Do(ctx, Engine{Addr: "127.0.0.1:1"}, Request{Method: http.MethodGet, Target: "/"})
	require.ErrorIs(t, err, ErrUnsent)
	require.ErrorIs(t, err, errReset)
}
