package gateway_test

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
)

// session is the path of a target of a playground session.
const session = "/api/playground/sessions/pg_01arz3ndektsv4rrffq69g5fav/targets/1"

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
		"dep_01arz3ndektsv4rrffq69g5fav", "nonsense", "dep_", "DEP_X", "usr_1", "a;b", "a=b", "...", "~", "null", "0", strings.Repeat("x", 2000),
	} {
		for _, rest := range []string{
			"/v1/models", "/v1/chat/completions?a=%2F..%2f", "/v1/a%20b", "/v1/models/org%2Fname", "/v1/models/org%2fname/", "/v1/100%25", "/v1/a%2525b",
			"/v1/chat/completions/", "/v1", "/v1/", "/v1/a[b]'c", "/v1/%61",
		} {
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
		"/inference": 404, "/inference/": 404, "/inference/d": 404, "/inference/d/": 404, "/inference/d/v2/models": 404,
		"/inference/d/V1/models": 404, "/inference/d/metrics": 404, "/inference/d/v1x": 404,
		"/inference//v1/models": 400, "/inference/d/v1//models": 400, "/inference//": 400, "/inference/d//v1/models": 400, "/inference/d/v1/models//": 400,
		"/inference/d/v1/../../d2/v1/models": 400, "/inference/d/v1/%2e%2e/metrics": 400, "/inference/d/v1/..%2fmetrics": 400, "/inference/d/v1/a%5cb": 400,
		"/inference/d/v1/%00": 400, "/inference/d/v1/%0d%0aX": 400, "/inference/d/v1/%252e%252e": 400, "/inference/../api/jobs": 400, "/inference/a%2Fb/v1/x": 400,
		"/inference/%2e%2e/v1/models": 400, "/inference/d/v1/%ff": 400, "http://evil/inference/d/v1/models": 400, "/inference/%20/v1/models": 400,
		"/inference/d/%76%31/models": 400, "/inference/d/v1%2fmodels": 400, "/%69nference/d/v1/models": 400, "/inference/d/v1/models%2F": 400,
		"/inference/d/v1/a;b": 400, "/inference/d/v1/a%252f..%252fb": 400, "/inference/d/v1/" + strings.Repeat("x", 5000): 400,
		session + "/v1/../x": 400, session + "/v1//x": 400, session + "/v1/%252e%252e/x": 400, session + "/v1/x%2F": 400, session + "/v1/a;b": 400,
	} {
		var bodies []string
		for _, bearer := range [][]string{nil, {"Authorization: Bearer " + userToken}} {
			status, handler, body := r.target(target, bearer...)
			require.Equal(t, want, status, target)
			require.Empty(t, handler, target)
			var got struct {
				Detail, Code string
				Error        struct{ Message, Code, Type string }
			}
			require.NoError(t, json.Unmarshal([]byte(body), &got), target)
			require.Equal(t, map[int]string{400: "bad_path", 404: "not_found"}[want], got.Code, target)
			require.Equal(t, []string{got.Detail, got.Code}, []string{got.Error.Message, got.Error.Code}, target)
			require.NotEmpty(t, got.Error.Type)
			bodies = append(bodies, body)
		}
		require.Equal(t, bodies[0], bodies[1], "%s: the response reveals nothing about deployments or tokens", target)
	}
	require.Empty(t, r.all())
}

// Every refusal of the gateway of a call to an engine has the object that clients of engines read.
func TestInferenceRefusalsHaveErrorObject(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for name, c := range map[string]struct {
		head   string
		status int
		code   string
	}{
		"trace":           {"TRACE /inference/d/v1/x HTTP/1.1\r\nHost: x", 400, "bad_method"},
		"connect":         {"CONNECT /inference/d/v1/x HTTP/1.1\r\nHost: x", 400, "bad_method"},
		"other route":     {"GET /inference/d/v2/x HTTP/1.1\r\nHost: x", 404, "not_found"},
		"host":            {"GET /inference/d/v1/x HTTP/1.1\r\nHost: evil.example", 403, "host"},
		"invalid escape":  {"GET /inference/d/v1/%zz HTTP/1.1\r\nHost: x", 400, "malformed_request"},
		"no host":         {"GET /inference/d/v1/x HTTP/1.1", 400, "malformed_request"},
		"headers too big": {"GET /inference/d/v1/x HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100<<10), 400, "headers_too_large"},

		"session, no login":        {"GET " + session + "/v1/x HTTP/1.1\r\nHost: x", 401, ""},
		"session, trace":           {"TRACE " + session + "/v1/x HTTP/1.1\r\nHost: x", 400, "bad_method"},
		"session, host":            {"GET " + session + "/v1/x HTTP/1.1\r\nHost: evil.example", 403, "host"},
		"session, invalid escape":  {"GET " + session + "/v1/%zz HTTP/1.1\r\nHost: x", 400, "malformed_request"},
		"session, headers too big": {"GET " + session + "/v1/x?y HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100<<10), 400, "headers_too_large"},
	} {
		conn := r.dial()
		_, err := io.WriteString(conn, c.head+"\r\nConnection: close\r\n\r\n")
		require.NoError(t, err, name)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, name)
		var got struct {
			Code  string
			Error struct{ Message, Code string }
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&got), name)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, name)
		require.Equal(t, []string{c.code, c.code}, []string{got.Code, got.Error.Code}, name)
		require.NotEmpty(t, got.Error.Message, name)
	}
	r.gw.Drain()
	status, _, body := r.target("/inference/d/v1/x")
	require.Equal(t, 503, status)
	require.Contains(t, body, `"error":{`)
}

// The gateway relays to another process what its own process would have received.
func TestInferenceRelayedAsSent(t *testing.T) {
	t.Parallel()
	addr, trust := startTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After-Ms", "7")
		w.Header().Set("Location", "/inference/d/v1/models")
		_, _ = io.WriteString(w, r.RequestURI+"\n")
		_ = r.Header.Write(w)
	})
	r := start(t, func(c *gateway.Config, d *gateway.Deps) {
		c.InferenceAddr, d.Inference = addr, nil
		d.RelayTLS = func(string) *tls.Config { return trust }
	})
	for target, want := range map[string]string{
		"/inference/d/v1/models/org%2Fname": "", "/inference/d/v1/100%25/?x=%2F": "", "/inference/d/v1/chat/completions/": "", "/inference/d/v1?": "",
		"/inference/d/v1/a%2Fb|c":  "/inference/d/v1/a%2Fb%7Cc",
		"/inference/d/v1/%61'!(x)": "",
		"/api/playground/sessions/pg_1/targets/1/v1/models/org%2Fname/?a=b/": "",
	} {
		conn := r.dial()
		_, err := io.WriteString(conn, "POST "+target+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+userToken+"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"+
			"HTTP2-Settings: AAMAAABk\r\nAnthropic-Version: 1\r\nRange: bytes=0-\r\nContent-Length: 2\r\n\r\n{}")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		got, headers, _ := strings.Cut(string(body), "\n")
		require.Equal(t, cmp.Or(want, target), got)
		require.Contains(t, headers, "Anthropic-Version: 1")
		require.Contains(t, headers, "Range: bytes=0-")
		require.NotContains(t, strings.ToLower(headers), "upgrade")
		require.NotContains(t, strings.ToLower(headers), "http2-settings")
		require.Equal(t, "7", resp.Header.Get("Retry-After-Ms"))
		require.Equal(t, "/inference/d/v1/models", resp.Header.Get("Location"))
	}
}
