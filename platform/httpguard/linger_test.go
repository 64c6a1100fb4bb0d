package httpguard_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httpguard"
)

// refusals are handlers that respond before they have read the whole body.
func refusals() map[string]http.HandlerFunc {
	refuse := func(w http.ResponseWriter) { http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge) }
	return map[string]http.HandlerFunc{
		"at once": func(w http.ResponseWriter, _ *http.Request) { refuse(w) },
		"at a limit": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 1<<19))
			refuse(w)
		},
		"with close": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			refuse(w)
		},
		"in full duplex": func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			_, _ = io.CopyN(io.Discard, r.Body, 1000)
			w.Header().Set("Connection", "close")
			refuse(w)
		},
	}
}

// request returns the head and the body of a POST request with a body of the given size.
func request(kind string, size int) (head, body string) {
	body = strings.Repeat("x", size)
	switch kind {
	case "closing": // as urllib sends it
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size), body
	case "HTTP/1.0":
		return fmt.Sprintf("POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n", size), body
	case "chunked":
		return "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
	case "expecting": // and not waiting
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", size), body
	default:
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size), body
	}
}

// A client that reads nothing before it has sent the whole body must see the response, as plain urllib needs it.
func TestRefusalDuringBodyReachesClient(t *testing.T) {
	t.Parallel()
	for name, refuse := range refusals() {
		addr := serve(t, refuse)
		for _, kind := range []string{"kept", "closing", "HTTP/1.0", "chunked", "expecting"} {
			for _, size := range []int{1 << 20, 9_000_000} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, kind, size), func(t *testing.T) {
					t.Parallel()
					conn := dial(t, addr)
					head, body := request(kind, size)
					_, err := io.WriteString(conn, head+body)
					require.NoError(t, err, "the server must read on")
					in := bufio.NewReader(conn)
					requireStatus(t, in, http.StatusRequestEntityTooLarge)
					_, err = in.ReadByte()
					require.ErrorIs(t, err, io.EOF, "the connection is closed, not reset")
				})
			}
		}
	}
}

// A request that is rejected before any handler sees it, too.
func TestRejectedHeadBeforeBodyReachesClient(t *testing.T) {
	t.Parallel()
	addr := serve(t, echoBody)
	conn := dial(t, addr)
	_, err := io.WriteString(conn, "POST / HTTP/1.1\nHost: x\r\nContent-Length: 9000000\r\n\r\n"+strings.Repeat("x", 9_000_000))
	require.NoError(t, err)
	requireStatus(t, bufio.NewReader(conn), http.StatusBadRequest)
}

// The client gets the response while it is still sending, so that it can stop.
func TestRefusalDuringBodyIsSentAtOnce(t *testing.T) {
	t.Parallel()
	conn := dial(t, serve(t, refusals()["at once"]))
	head, body := request("kept", 9_000_000)
	_, err := io.WriteString(conn, head+body[:1000])
	require.NoError(t, err)
	requireStatus(t, bufio.NewReader(conn), http.StatusRequestEntityTooLarge)
}

func TestLingerIsBounded(t *testing.T) {
	t.Parallel()
	const long = time.Hour
	for name, tc := range map[string]struct {
		bytes        int64
		whole, pause time.Duration
		send         string // what the client sends again and again after the head
	}{
		"bytes":      {1 << 20, long, long, strings.Repeat("x", 1<<16)},
		"whole time": {1 << 40, 50 * time.Millisecond, long, "x"},
		"pause":      {1 << 40, long, 50 * time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			l.SetLinger(tc.bytes, tc.whole, tc.pause)
			server, closed := serveOn(t, l)
			conn := dial(t, server.Addr)
			_, err := io.WriteString(conn, endless)
			require.NoError(t, err)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for tc.send != "" {
					if _, err := io.WriteString(conn, tc.send); err != nil {
						return
					}
				}
			}()
			<-closed
			_ = conn.Close()
			<-sent
		})
	}
}

// endless is the beginning of a request whose body never ends.
const endless = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000000000\r\n\r\nx"

func TestClosingServerEndsLinger(t *testing.T) {
	t.Parallel()
	l := listen(t)
	l.SetLinger(1<<40, time.Hour, time.Hour)
	server, closed := serveOn(t, l)
	conn := dial(t, server.Addr)
	_, err := io.WriteString(conn, endless)
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	requireStatus(t, in, http.StatusRequestEntityTooLarge)
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the server has closed its half")
	require.NoError(t, server.Close())
	<-closed
}

// serveOn serves a handler that refuses each request at once. The channel closed gets a value when a connection has
// been closed.
func serveOn(t *testing.T, l *httpguard.Listener) (server *http.Server, closed <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{}, 8)
	server = &http.Server{Addr: l.Addr().String(), Handler: refusals()["at once"], ReadHeaderTimeout: time.Minute, ConnState: func(c net.Conn, state http.ConnState) {
		httpguard.State(c, state)
		if state == http.StateClosed {
			ended <- struct{}{}
		}
	}}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return server, ended
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func requireStatus(t *testing.T, in *bufio.Reader, status int) {
	t.Helper()
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	if resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(in, nil)
		require.NoError(t, err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, status, resp.StatusCode)
}
