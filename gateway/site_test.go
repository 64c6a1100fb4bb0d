package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
)

// startSite returns a gateway with builds of the console and of the documentation.
func startSite(t *testing.T) *harness {
	t.Helper()
	return start(t, func(_ *gateway.Config, d *gateway.Deps) {
		d.Console = fstest.MapFS{"index.html": {Data: []byte("<p>console")}, "assets/a-1.js": {Data: []byte("console script")}, "secret": {Data: []byte("secret")}}
		d.Docs = fstest.MapFS{"index.html": {Data: []byte("<p>docs")}, "guide/index.html": {Data: []byte("<p>guide")}}
	})
}

func TestConsoleAndDocsServed(t *testing.T) {
	t.Parallel()
	r := startSite(t)
	for path, want := range map[string]string{
		"/": "<p>console", "/jobs": "<p>console", "/jobs/job_1/": "<p>console", "/jobs/%C3%A9?tab=logs": "<p>console", "/assets/a-1.js": "console script",
		"/docs/": "<p>docs", "/docs/guide/": "<p>guide",
	} {
		got := r.do("GET", path, "", "Accept", htmlType)
		require.Equal(t, http.StatusOK, got.status, path)
		require.Equal(t, want, got.body, path)
		requireGatewayHeaders(t, got)
		head := r.do("HEAD", path, "", "Accept", htmlType)
		require.Equal(t, http.StatusOK, head.status, path)
		require.Empty(t, head.body)
		require.Equal(t, got.header.Get("Content-Length"), head.header.Get("Content-Length"))
	}
	require.Empty(t, r.all(), "no service is called")
	require.Contains(t, r.log.String(), `"route":"/{page...}"`)
	require.NotContains(t, r.log.String(), "job_1")
}

func TestErrorsOfAPIStayJSON(t *testing.T) {
	t.Parallel()
	r := startSite(t)
	for target, status := range map[string]int{
		"GET /api/nope": 404, "GET /api": 404, "GET /metrics": 404, "GET /inference/x": 404, "GET /.well-known/x": 404, "GET /pages/": 404,
		"POST /jobs": 404, "DELETE /": 404, "DELETE /api/jobs": 405, "POST /login": 405, "GET /api/jobs/": 404,
	} {
		method, path, _ := strings.Cut(target, " ")
		got := r.do(method, path, "", "Accept", htmlType)
		require.Equal(t, status, got.status, target)
		require.Contains(t, got.body, `"detail":`, target)
	}
	require.Equal(t, http.StatusNotFound, r.do("GET", "/jobs", "", "Accept", "application/json").status)
	foreign := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	foreign.Host = "evil.example"
	foreign.Header.Set("Accept", htmlType)
	require.Equal(t, http.StatusForbidden, r.inline(foreign).Code, "the host name is checked")
}

// Only plain paths reach the built files.
func TestSitePathsRefused(t *testing.T) {
	t.Parallel()
	r := startSite(t)
	for _, prefix := range []string{"/", "/docs/", "/assets/"} {
		for _, tail := range []string{"../secret", "..%2fsecret", "%2e%2e/secret", "a%5c..", "a%00", "a%0d%0ab", "./x", "%252e%252e/x", "a//b", "/a", "a/../../secret", "%2fsecret", "a%2f"} {
			got := r.do("GET", prefix+tail, "", "Accept", htmlType)
			require.Contains(t, []int{400, 404}, got.status, prefix+tail)
			require.Contains(t, got.body, `"detail":`, prefix+tail)
		}
	}
}

// The console shows the notice of maintenance, so its own files are served.
func TestSiteServedInMaintenance(t *testing.T) {
	t.Parallel()
	r := startSite(t)
	r.startMaintenance()
	for _, path := range []string{"/", "/jobs", "/assets/a-1.js", "/docs/"} {
		require.Equal(t, http.StatusOK, r.do("GET", path, "", "Accept", htmlType).status, path)
	}
	require.Equal(t, http.StatusServiceUnavailable, r.do("GET", "/api/jobs", "", as(userToken)...).status)
}
