package reverseproxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo returns a service that upgrades the connection and sends back what it receives.
func echo(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "websocket" {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-Websocket-Accept: x\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	}
}

func TestWebSocketPassesBothWays(t *testing.T) {
	t.Parallel()
	r := over(t, echo(t))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
	require.NoError(t, err)
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	require.Equal(t, "x", resp.Header.Get("Sec-Websocket-Accept"))
	require.NoError(t, resp.Body.Close())
	buf := make([]byte, 5)
	for _, text := range []string{"early", "later"} {
		if text != "early" {
			_, err = io.WriteString(conn, text)
			require.NoError(t, err)
		}
		_, err = io.ReadFull(read, buf)
		require.NoError(t, err)
		require.Equal(t, text, string(buf))
	}
}

func TestOtherUpgradesRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head string
		want int
	}{
		// The service does not see these protocols, so it requires an upgrade to its own.
		"h2c, body": {"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}", 426},
		"TLS":       {"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0, foo\r\n\r\n", 426},
		"h2c":       {"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n", 426},
		// The service accepts the requests below, but the gateway does not.
		"body":          {"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\n{}", 502},
		"POST":          {"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n", 502},
		"no Connection": {"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n", 502},
		"two protocols": {"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n", 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := over(t, echo(t))
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.front.Listener.Addr().String())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = io.WriteString(conn, c.head)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, c.want, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
		})
	}
}

func TestUnrequestedUpgradeRefused(t *testing.T) {
	t.Parallel()
	r := over(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_ = conn.Close()
	})
	resp, _ := do(t, request(t, http.MethodGet, r.front.URL, nil))
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
}

func TestInterimResponsesForwarded(t *testing.T) {
	t.Parallel()
	r := over(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 12 {
			w.Header().Set("X-Hint", "early")
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.Header().Del("X-Hint")
		_, _ = io.WriteString(w, "body")
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, 8, strings.Count(string(all), "HTTP/1.1 103 Early Hints\r\nX-Hint: early\r\n\r\n"), "the number of interim responses is limited: %s", all)
	_, last, _ := strings.Cut(string(all), "HTTP/1.1 200 OK\r\n")
	require.NotContains(t, last, "X-Hint", "the header of the interim response is not in the final one")
	require.True(t, strings.HasSuffix(last, "body"))
}

// A client of HTTP/1.0 would take an interim response for the final one (RFC 9110, section 15.2).
func TestInterimResponsesWithheldFromHTTP10(t *testing.T) {
	t.Parallel()
	r := over(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "body")
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Regexp(t, "(?s)^HTTP/1.0 200 OK\r\n.*body$", string(all))
}
