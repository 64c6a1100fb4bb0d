package webpage

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func docsFiles(policy string) fstest.MapFS {
	out := files("index.html", "404.html", "guide/index.html", "api/index.html", "api.css", "flat.html", "openapi.yaml", "_astro/x.1a2b.js", "pagefind/pagefind.js",
		"pagefind/wasm.en.pagefind", "pagefind/index/en_1.pf_index", "pagefind/search.wasm")
	out["csp.json"] = &fstest.MapFile{Data: []byte(policy)}
	return out
}

const scriptHash = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

func TestDocsFiles(t *testing.T) {
	t.Parallel()
	h := newSiteHarness(t, true, fstest.MapFS{}, docsFiles(`{"script": ["`+scriptHash+`"]}`))
	for path, want := range map[string][2]string{
		"/docs/":                             {"index.html", "text/html; charset=utf-8"},
		"/docs/guide/":                       {"guide/index.html", "text/html; charset=utf-8"},
		"/docs/flat":                         {"flat.html", "text/html; charset=utf-8"},
		"/docs/openapi.yaml":                 {"openapi.yaml", "application/yaml; charset=utf-8"},
		"/docs/pagefind/pagefind.js":         {"pagefind/pagefind.js", "text/javascript; charset=utf-8"},
		"/docs/pagefind/search.wasm":         {"pagefind/search.wasm", "application/wasm"},
		"/docs/pagefind/wasm.en.pagefind":    {"pagefind/wasm.en.pagefind", "application/octet-stream"},
		"/docs/pagefind/index/en_1.pf_index": {"pagefind/index/en_1.pf_index", "application/octet-stream"},
		"/docs/_astro/x.1a2b.js":             {"_astro/x.1a2b.js", "text/javascript; charset=utf-8"},
		"/docs/api.css":                      {"api.css", "text/css; charset=utf-8"},
	} {
		got := h.get(path)
		require.Equal(t, http.StatusOK, got.Code, path)
		require.Equal(t, "content of "+want[0], got.Body.String(), path)
		require.Equal(t, want[1], got.Header().Get("Content-Type"), path)
		require.Equal(t, strings.Contains(path, "_astro"), strings.Contains(got.Header().Get("Cache-Control"), "immutable"), path)
		require.Equal(t, "default-src 'self'; script-src 'self' 'wasm-unsafe-eval' '"+scriptHash+"'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "+
			"object-src 'none'; base-uri 'none'; frame-ancestors 'none'", got.Header().Get("Content-Security-Policy"), path)
	}
	require.Equal(t, http.StatusNotFound, h.get("/docs/csp.json").Code)
}

// The relative links of a page are right only if the address of its folder ends with a slash.
func TestDocsFolderAddressEndsWithSlash(t *testing.T) {
	t.Parallel()
	h := newSiteHarness(t, true, fstest.MapFS{}, docsFiles(`{}`))
	for path, want := range map[string]string{"/docs": "/docs/", "/docs/guide?q=a": "/docs/guide/?q=a", "/docs/api": "/docs/api/"} {
		got := h.get(path)
		require.Equal(t, http.StatusFound, got.Code, path)
		require.Equal(t, want, got.Header().Get("Location"))
	}
}

func TestDocsMissingPage(t *testing.T) {
	t.Parallel()
	h := newSiteHarness(t, true, fstest.MapFS{}, docsFiles(`{}`))
	for _, path := range []string{"/docs/none", "/docs/none/", "/docs/guide/none.png", "/docs/flat/"} {
		got := h.get(path)
		require.Equal(t, http.StatusNotFound, got.Code, path)
		require.Equal(t, "content of 404.html", got.Body.String(), path)
		got = h.get(path, "Accept", "*/*")
		require.Equal(t, http.StatusNotFound, got.Code, path)
		require.JSONEq(t, `{"detail":"Not Found"}`, got.Body.String())
	}
}

func TestDocsNotBuilt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	for _, path := range []string{"/docs", "/docs/", "/docs/api/"} {
		got := h.get(path)
		require.Equal(t, http.StatusNotImplemented, got.Code, path)
		require.Contains(t, got.Body.String(), "<code>make docs build</code>")
		require.Contains(t, got.Body.String(), "<code>docs/reference/api.md</code>")
	}
	got := h.get("/docs/openapi.yaml", "Accept", "*/*")
	require.Equal(t, http.StatusNotImplemented, got.Code)
	require.Contains(t, got.Body.String(), `"code":"not_built"`)
}

// A wrong file of hashes must not weaken the policy: the server does not start.
func TestDocsScriptHashesChecked(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{
		`{`, `{"script": "` + scriptHash + `"}`, `{"script": ["'unsafe-inline'"]}`, `{"script": ["` + scriptHash + `; img-src *"]}`, `{"script": ["sha1-47DEQpj8HBSa"]}`,
		`{"script": ["` + strings.Repeat(scriptHash+`", "`, maxScripts) + scriptHash + `"]}`,
	} {
		_, err := newSite(fstest.MapFS{}, docsFiles(policy))
		require.ErrorContains(t, err, "csp.json", policy)
	}
	s, err := newSite(nil, nil)
	require.NoError(t, err, "the builds in this binary")
	require.Contains(t, s.docsPolicy, "script-src 'self' 'wasm-unsafe-eval'")
}
