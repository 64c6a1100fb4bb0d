package contract

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireGracefulShutdown sends SIGTERM to signalboxd during a request to an engine. It requires that new requests are
// rejected, that the running request is finished, and that the process ends only then.
func (w *harness) requireGracefulShutdown(t *testing.T) {
	t.Helper()
	get := w.variables(t)
	path, err := get("deployment")
	require.NoError(t, err)
	path = "/inference/" + path + "/v1/chat/completions"
	token, err := get("deployment_token")
	require.NoError(t, err)
	call := func(method, path, text string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, w.URL+path, strings.NewReader(text))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(raw)
	}
	status, body := call(http.MethodPost, path, `{"messages": []}`)
	require.Equal(t, http.StatusOK, status, body)

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	const begun, rest = `{"model": "held", `, `"messages": []}`
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", path, token, len(begun+rest))
	require.NoError(t, err)
	received := bufio.NewReader(conn)
	leave, err := received.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, leave, "100 Continue", "the server must request the body")
	_, err = received.ReadString('\n')
	require.NoError(t, err)
	_, err = io.WriteString(conn, begun)
	require.NoError(t, err)

	process := w.Processes["signalboxd"]
	process.Signal(syscall.SIGTERM)
	require.Eventually(t, func() bool {
		status, body = call(http.MethodPost, path, `{"messages": []}`)
		return status != http.StatusOK
	}, requestTimeout, time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, status, body)
	require.Contains(t, body, `"code":"draining"`)
	status, body = call(http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, status, body)
	_, err = io.WriteString(conn, rest)
	require.NoError(t, err)
	resp, err := http.ReadResponse(received, nil)
	require.NoError(t, err, "the running request must be finished")
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(raw))
	require.Contains(t, string(raw), "held")
	<-process.Exited()
	require.NoError(t, process.Err(), process.Tail())
}
