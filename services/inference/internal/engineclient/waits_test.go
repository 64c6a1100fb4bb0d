package engineclient_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
)

// Each part of a call has a limit of its own. Those of the request take the place of the client's.
func TestWaits(t *testing.T) {
	t.Parallel()
	const short = 50 * time.Millisecond
	for name, tc := range map[string]struct {
		plays string // what the engine does: hold, half head, pause or deaf
		limit func(*engineclient.Timeouts, *engineclient.Waits)
		head  bool // the headers arrive
	}{
		"no response, client":   {"hold", func(c *engineclient.Timeouts, _ *engineclient.Waits) { c.FirstByte = short }, false},
		"no response, request":  {"hold", func(_ *engineclient.Timeouts, r *engineclient.Waits) { r.FirstByte = short }, false},
		"half a head":           {"half head", func(_ *engineclient.Timeouts, r *engineclient.Waits) { r.FirstByte = short }, false},
		"pause, client":         {"pause", func(c *engineclient.Timeouts, _ *engineclient.Waits) { c.Idle = short }, true},
		"pause, request":        {"pause", func(_ *engineclient.Timeouts, r *engineclient.Waits) { r.Idle = short }, true},
		"engine reads nothing":  {"deaf", func(c *engineclient.Timeouts, _ *engineclient.Waits) { c.Send = short }, false},
		"pause of chunked body": {"pause chunked", func(_ *engineclient.Timeouts, r *engineclient.Waits) { r.Idle = short }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			addr, _ := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
				if tc.plays != "deaf" {
					_, _, _ = take(in)
				}
				_, _ = io.WriteString(c, map[string]string{
					"half head": "HTTP/1.1 200 OK\r\nContent-", "pause": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
					"pause chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
				}[tc.plays])
				<-over
			})
			defer close(over)
			c, in := client(t), post(strings.Repeat("x", 32<<20))
			if tc.plays != "deaf" {
				in = post("x")
			}
			tc.limit(&c.Timeouts, &in.Waits)
			a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, in)
			if !tc.head {
				require.ErrorIs(t, err, engineclient.ErrTimeout)
				return
			}
			require.NoError(t, err)
			body, err := io.ReadAll(a)
			require.Equal(t, "ok", string(body))
			require.ErrorIs(t, err, engineclient.ErrTimeout)
			_ = a.Close()
		})
	}
}

// A request may wait for longer than the client's timeouts.
func TestWaitsOfRequestAreLonger(t *testing.T) {
	t.Parallel()
	addr, _ := peer(t, echo)
	c, in := client(t), post("x")
	c.Timeouts.FirstByte, c.Timeouts.Idle = time.Nanosecond, time.Nanosecond
	in.Waits = engineclient.Waits{FirstByte: time.Minute, Idle: time.Minute}
	a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, in)
	require.NoError(t, err)
	require.Equal(t, "x", whole(t, a))
	require.Equal(t, http.StatusOK, a.Status)
}
