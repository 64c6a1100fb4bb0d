package webpage

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// files returns a file system in which each file contains its name.
func files(names ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, name := range names {
		out[name] = &fstest.MapFile{Data: []byte("content of " + name)}
	}
	return out
}

func consoleHarness(t *testing.T) *harness {
	t.Helper()
	return newSiteHarness(t, true, files(".gitkeep", "index.html", "index.html.br", "index.html.gz", "icon.svg", "assets/app-1a2b.js", "assets/app-1a2b.js.br",
		"assets/app-1a2b.js.gz", "assets/app-1a2b.css", "assets/mono.woff2"), fstest.MapFS{})
}

func TestConsolePageForEveryPath(t *testing.T) {
	t.Parallel()
	h := consoleHarness(t)
	for _, path := range []string{"/", "/jobs", "/jobs/job_1/metrics", "/jobs/", "/share/shr_1", "/index.html", "/a.b", "/auth/other"} {
		pattern, ok := h.pages.Site(request(path, "text/html"))
		require.True(t, ok, path)
		require.Equal(t, "/{page...}", pattern)
		got := h.get(path)
		require.Equal(t, http.StatusOK, got.Code, path)
		require.Equal(t, "content of index.html", got.Body.String(), path)
		require.Equal(t, "text/html; charset=utf-8", got.Header().Get("Content-Type"))
		require.Equal(t, "no-cache", got.Header().Get("Cache-Control"), "a new build must appear at once")
		require.Equal(t, "noindex", got.Header().Get("X-Robots-Tag"))
		require.Equal(t, "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
			got.Header().Get("Content-Security-Policy"))
	}
}

func TestSiteLeavesOtherPathsToAPI(t *testing.T) {
	t.Parallel()
	h := consoleHarness(t)
	for _, path := range []string{"/api", "/api/nope", "/inference/dep_1", "/healthz/x", "/metrics", "/debug/pprof", "/pages/x.js", "/.well-known/x", "/.git/config", "/readyz"} {
		_, ok := h.pages.Site(request(path, "text/html"))
		require.False(t, ok, path)
	}
	for _, path := range []string{"/", "/jobs", "/index.htm"} {
		_, ok := h.pages.Site(request(path, "application/json"))
		require.False(t, ok, "%s: a program gets the API's error", path)
		post := request(path, "text/html")
		post.Method = http.MethodPost
		_, ok = h.pages.Site(post)
		require.False(t, ok, path)
	}
	for path, want := range map[string]string{"/icon.svg": "/{page...}", "/assets/none.js": "/assets/{file...}", "/docs": "/docs/{page...}", "/docs/x.png": "/docs/{page...}"} {
		pattern, ok := h.pages.Site(request(path, "*/*"))
		require.True(t, ok, path)
		require.Equal(t, want, pattern)
	}
}

func request(path, accept string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	return r
}

func TestConsoleAssets(t *testing.T) {
	t.Parallel()
	h := consoleHarness(t)
	for name, typ := range map[string]string{
		"/assets/app-1a2b.js": "text/javascript; charset=utf-8", "/assets/app-1a2b.css": "text/css; charset=utf-8", "/assets/mono.woff2": "font/woff2",
	} {
		got := h.get(name)
		require.Equal(t, http.StatusOK, got.Code, name)
		require.Equal(t, "content of "+name[1:], got.Body.String())
		require.Equal(t, typ, got.Header().Get("Content-Type"))
		require.Equal(t, "public, max-age=31536000, immutable", got.Header().Get("Cache-Control"))
	}
	for _, name := range []string{"", "none.js", "app-1a2b.js.br", "index.html", "app-1a2b.js/", ".gitkeep"} {
		got := h.get("/assets/" + name)
		require.Equal(t, http.StatusNotFound, got.Code, name)
		require.NotContains(t, got.Body.String(), "content of", name)
	}
	icon := h.get("/icon.svg", "Accept", "image/*")
	require.Equal(t, "image/svg+xml; charset=utf-8", icon.Header().Get("Content-Type"))
	require.Equal(t, "no-cache", icon.Header().Get("Cache-Control"), "its name has no hash")
	require.Equal(t, "content of index.html", h.get("/.gitkeep").Body.String(), "hidden files do not belong to the build")
}

// A server that was built without Node explains what to do, and its API works.
func TestConsoleNotBuilt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	got := h.get("/jobs")
	require.Equal(t, http.StatusNotImplemented, got.Code)
	require.Contains(t, got.Body.String(), "<code>make build</code>")
	require.Contains(t, got.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, http.StatusNotFound, h.get("/assets/app.js").Code)
	_, ok := h.pages.Site(request("/", "*/*"))
	require.False(t, ok)
	require.True(t, strings.HasPrefix(got.Header().Get("Content-Type"), "text/html"))
}
