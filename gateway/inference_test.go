package gateway_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// target sends a POST request with the given request target, unchanged. net/http's client would normalize it.
func (r *harness) target(target string, headers ...string) (status int, handler, body string) {
	r.t.Helper()
	conn := r.dial()
	_, err := io.WriteString(conn, "POST "+target+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n"+strings.Join(headers, "\r\n")+"\r\n\r\n")
	require.NoError(r.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	require.Empty(r.t, resp.Header.Get("Location"), "no redirects: %s", target)
	return resp.StatusCode, resp.Header.Get("X-Handler"), string(raw)
}

func TestInferencePathsPassUnchecked(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for _, id := range []string{
		"dep_01arz3ndektsv4rrffq69g5fav", "nonsense", "dep_", "DEP_X", "usr_1", "a;b", "a=b", "%20", "%C3%A9", "...", "~", "null", "0", strings.Repeat("x", 2000),
	} {
		for _, rest := range []string{"/v1/models", "/v1/chat/completions?a=%2F..%2f", "/v1/a%20b"} {
			target := "/inference/" + id + rest
			for _, bearer := range [][]string{nil, {"Authorization: Bearer nonsense"}, {"Authorization: Bearer " + userToken}} {
				status, handler, body := r.target(target, bearer...)
				require.Equal(t, 200, status, "%s: the gateway checks neither the id nor the bearer", target)
				require.Equal(t, "inference", handler, target)
				require.Contains(t, body, "POST "+target+" ", "the target is forwarded unchanged")
			}
		}
	}
	require.Empty(t, r.all(), "auth is not called for the bearer")
}

func TestInvalidInferencePathsRefusedUniformly(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for target, want := range map[string]int{
		"/inference": 404, "/inference/": 404, "/inference//v1/models": 404, "/inference/d": 404, "/inference/d/": 404, "/inference/d/v2/models": 404,
		"/inference/d/V1/models": 404, "/inference/d/metrics": 404, "/inference/d/v1//models": 404, "/inference/d/v1/models/": 404, "/Inference/d/v1/models": 404,
		"/inference/d/v1/../../d2/v1/models": 400, "/inference/d/v1/%2e%2e/metrics": 400, "/inference/d/v1/..%2fmetrics": 400, "/inference/d/v1/a%5cb": 400,
		"/inference/d/v1/%00": 400, "/inference/d/v1/%0d%0aX": 400, "/inference/d/v1/%252e%252e": 400, "/inference/../api/jobs": 400, "/inference/a%2Fb/v1/x": 400,
		"/inference/%2e%2e/v1/models": 400, "/inference/d/v1/%ff": 400, "http://evil/inference/d/v1/models": 400,
	} {
		var bodies []string
		for _, bearer := range [][]string{nil, {"Authorization: Bearer " + userToken}} {
			status, handler, body := r.target(target, bearer...)
			require.Equal(t, want, status, target)
			require.Empty(t, handler, target)
			require.Contains(t, body, `"detail":`, target)
			bodies = append(bodies, body)
		}
		require.Equal(t, bodies[0], bodies[1], "%s: the response reveals nothing about deployments or tokens", target)
	}
}
