package maintenancetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// waitingJob submits a job that sleeps for ten minutes, and returns its id.
func waitingJob(t *testing.T, s *testenv.Installation, admin string) string {
	t.Helper()
	var newest struct{ Version string }
	do(t, s.URL, admin, http.MethodGet, "/api/recipes/custom/custom", "").into(t, &newest)
	lock := do(t, s.URL, admin, http.MethodGet, "/api/recipes/custom/custom/versions/"+newest.Version+"/lock", "")
	body, err := json.Marshal(map[string]any{"api": "service/v1", "spec": map[string]any{
		"name": "waits", "project": "default", "source": map[string]any{"command": []string{"sleep", "600"}},
		"recipe":    map[string]any{"name": "custom/custom", "version": newest.Version, "lock": json.RawMessage(lock.body)},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
	}})
	require.NoError(t, err)
	made := do(t, s.URL, admin, http.MethodPost, "/api/jobs", string(body))
	require.Equal(t, http.StatusCreated, made.status, made.body)
	var job struct{ ID string }
	made.into(t, &job)
	return job.ID
}

// openRequest is a sign-in request whose body has been sent only in part.
type openRequest struct {
	conn net.Conn
	in   *bufio.Reader
	rest string
}

func startRequest(t *testing.T, s *testenv.Installation) openRequest {
	t.Helper()
	body := `{"username": "admin", "password": "` + s.Password.Reveal() + `"}`
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /api/auth/login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	require.NoError(t, err)
	// The server sends status 100 when a handler begins to read the body, so the request is now being handled.
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue")
	_, err = in.ReadString('\n')
	require.NoError(t, err)
	_, err = io.WriteString(conn, body[:5])
	require.NoError(t, err)
	return openRequest{conn, in, body[5:]}
}

func (h openRequest) finish(t *testing.T) response {
	t.Helper()
	_, err := io.WriteString(h.conn, h.rest)
	require.NoError(t, err)
	resp, err := http.ReadResponse(h.in, nil)
	require.NoError(t, err, "the open request must get a response")
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return response{resp.StatusCode, resp.Header, string(raw)}
}

// draining stops the process that serves the API, as a service manager would, while a request and a stream are open.
// The request must succeed, the stream must end without eof, and new requests must be rejected.
func draining(t *testing.T, s *testenv.Installation, kind, _ string) {
	t.Helper()
	admin := signIn(t, s)
	job := waitingJob(t, s, admin)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/jobs/"+job+"/stream", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+admin)
	stream, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = stream.Body.Close() })
	require.Equal(t, http.StatusOK, stream.StatusCode)
	events := bufio.NewReader(stream.Body)
	_, err = events.ReadString('\n')
	require.NoError(t, err)

	h := startRequest(t, s)
	process := s.Processes[map[string]string{"single": "signalboxd", "split": "gateway"}[kind]]
	process.Signal(syscall.SIGTERM)
	require.Eventually(t, func() bool {
		a, err := request(t.Context(), s.URL, admin, http.MethodGet, "/api/projects", "")
		return err == nil && a.status == http.StatusServiceUnavailable && a.code(t) == "draining"
	}, testenv.StageTimeout, time.Millisecond)
	require.Equal(t, http.StatusOK, do(t, s.URL, "", http.MethodGet, "/healthz", "").status)
	require.Equal(t, http.StatusOK, do(t, s.URL, "", http.MethodGet, "/api/version", "").status)
	for _, path := range []string{"/inference/dep_00000000000000000000000000/v1/models", "/api/ingest/watermark", "/api/jobs", "/login"} {
		a := do(t, s.URL, admin, http.MethodGet, path, "")
		require.Equal(t, http.StatusServiceUnavailable, a.status, path)
		require.Equal(t, "draining", a.code(t), path)
		require.NotEmpty(t, a.header.Get("Retry-After"), path)
	}
	rest, err := io.ReadAll(events)
	require.NoError(t, err, "the stream must end without an error")
	require.NotContains(t, string(rest), "event: eof", "the stream must not send eof, so that the client reconnects")
	in := h.finish(t)
	require.Equal(t, http.StatusOK, in.status, in.body)
	<-process.Exited()
	require.NoError(t, process.Err(), process.Tail())
	_, err = request(t.Context(), s.URL, "", http.MethodGet, "/healthz", "")
	require.Error(t, err, "the listener must be closed")
}
