package engineclient_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
)

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// An engine may have begun to work on a request that it received. The request is sent again only if the connection was
// used before and is lost within 50 ms of the last byte written, without a byte received.
func TestRequestSentAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fresh bool          // the request is the first one on its connection
		works time.Duration // how long the engine works on the request before it closes the connection
		sends string        // what it sends before
		body  int           // size of the body; -1 for a request without a body
		want  int32         // how often the engine gets the request
	}{
		"lost at once":        {want: 2},
		"lost after 50 ms":    {works: 50 * time.Millisecond, want: 2},
		"no body":             {body: -1, want: 2},
		"large body":          {body: 1 << 20, want: 2},
		"lost after 51 ms":    {works: 51 * time.Millisecond, want: 1},
		"large body, 51 ms":   {works: 51 * time.Millisecond, body: 1 << 20, want: 1},
		"works half a second": {works: 500 * time.Millisecond, body: -1, want: 1},
		"sends 100 Continue":  {sends: "HTTP/1.1 100 Continue\r\n\r\n", want: 1},
		"sends Early Hints":   {sends: "HTTP/1.1 103 Early Hints\r\n\r\n", want: 1},
		"sends a letter":      {sends: "H", want: 1},
		"new connection":      {fresh: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clock.NewFake(time.Now().Add(time.Hour)) // ahead of real time, so that no deadline expires
			var got atomic.Int32
			addr, _ := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
				for {
					r, _, ok := take(in)
					if !ok {
						return
					}
					if r.URL.Path == "/warm" {
						_, _ = io.WriteString(c, plainOK)
						continue
					}
					got.Add(1)
					clk.Advance(tc.works)
					_, _ = io.WriteString(c, tc.sends)
					return
				}
			})
			c, to := client(t), engineclient.Engine{Addr: addr}
			c.Clock = clk
			if !tc.fresh {
				warm := post("x")
				warm.Target = "/warm"
				a, err := c.Do(t.Context(), to, warm)
				require.NoError(t, err)
				require.Equal(t, "ok", whole(t, a))
			}
			in := post(strings.Repeat("x", max(tc.body, 0)))
			if tc.body < 0 {
				in = engineclient.Request{Method: http.MethodGet, Target: in.Target}
			}
			_, err := c.Do(t.Context(), to, in)
			require.Error(t, err)
			require.NotErrorIs(t, err, engineclient.ErrUnreachable, "the engine got the request, so no other engine may get it")
			require.Equal(t, tc.want, got.Load())
		})
	}
}

// An engine may respond before it reads the body, and then neither read it nor close the connection.
func TestEarlyResponse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ size, status int }{
		"2 B": {2, 413}, "300 KB": {300 << 10, 413}, "900 KB": {900 << 10, 413}, "3 MB": {3 << 20, 413}, "32 MB": {32 << 20, 413}, "redirect of 900 KB": {900 << 10, 307},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answered := make(chan struct{})
			defer close(answered)
			addr, conns := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
				for line := "-"; strings.TrimSpace(line) != ""; {
					var err error
					if line, err = in.ReadString('\n'); err != nil {
						return
					}
				}
				_, _ = fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Length: 9\r\n\r\ntoo large", tc.status)
				<-answered
			})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than the limits of the client
			defer cancel()
			c := client(t)
			a, err := c.Do(ctx, engineclient.Engine{Addr: addr}, post(strings.Repeat("x", tc.size)))
			require.NoError(t, err)
			require.Equal(t, tc.status, a.Status)
			body, err := io.ReadAll(a)
			require.NoError(t, err)
			require.Equal(t, "too large", string(body))
			_ = a.Close()
			require.Equal(t, int32(1), conns.Load())
			a, err = c.Do(ctx, engineclient.Engine{Addr: addr}, post("x"))
			require.NoError(t, err, "the next request must not wait behind a body that nothing reads")
			require.Equal(t, int32(2), conns.Load())
			_ = a.Close()
		})
	}
}

// The connection of a request whose body was sent in the background is reused.
func TestConnectionReusedAfterLargeBody(t *testing.T) {
	t.Parallel()
	addr, conns := peer(t, echo)
	c, large := client(t), strings.Repeat("x", 200<<10)
	for range 20 {
		a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, post(large))
		require.NoError(t, err)
		require.Equal(t, large, whole(t, a))
	}
	require.Equal(t, int32(1), conns.Load())
}

// A 204 has no body. If an engine announces one nevertheless, its bytes would be read as the response to the next request.
func TestConnectionNotReusedAfterBodyOfNoContent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		headers string
		want    int32
	}{
		"length":         {"Content-Length: 5\r\n", 2},
		"chunks":         {"Transfer-Encoding: chunked\r\n", 2},
		"no body":        {"", 1},
		"length of zero": {"Content-Length: 0\r\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, conns := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
				for {
					if _, _, ok := take(in); !ok {
						return
					}
					_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n"+tc.headers+"\r\n")
				}
			})
			c := client(t)
			for range 2 {
				a, err := c.Do(t.Context(), engineclient.Engine{Addr: addr}, post("x"))
				require.NoError(t, err)
				require.Empty(t, whole(t, a))
			}
			require.Equal(t, tc.want, conns.Load())
		})
	}
}
