package webpage

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAssetsCompressed(t *testing.T) {
	t.Parallel()
	h := consoleHarness(t)
	tags := map[string]bool{}
	for accept, want := range map[string]string{
		"": "", "br": "br", "gzip, deflate, br, zstd": "br", "gzip": "gzip", "GZIP;q=0.5": "gzip", "br;q=0, gzip": "gzip", "br; q=0": "", "br;q=0.0,gzip;q=0": "", "deflate": "", "bro": "",
	} {
		got := h.get("/assets/app-1a2b.js", "Accept-Encoding", accept)
		require.Equal(t, want, got.Header().Get("Content-Encoding"), accept)
		require.Equal(t, "Accept-Encoding", got.Header().Get("Vary"), accept)
		require.Equal(t, "text/javascript; charset=utf-8", got.Header().Get("Content-Type"), "the type is that of the content")
		require.Equal(t, "content of assets/app-1a2b.js"+map[string]string{"": "", "br": ".br", "gzip": ".gz"}[want], got.Body.String(), accept)
		tags[got.Header().Get("Etag")] = true
	}
	require.Len(t, tags, 3, "each coding has its own tag")
	require.Empty(t, h.get("/assets/app-1a2b.css").Header().Get("Vary"))
}

func TestUnchangedFileIs304(t *testing.T) {
	t.Parallel()
	h := consoleHarness(t)
	tag := h.get("/jobs", "Accept-Encoding", "br").Header().Get("Etag")
	require.Regexp(t, `^"[0-9a-f]{32}"$`, tag)
	for _, given := range []string{tag, "W/" + tag, `"x", ` + tag} {
		got := h.get("/runs", "Accept-Encoding", "br", "If-None-Match", given)
		require.Equal(t, http.StatusNotModified, got.Code, given)
		require.Empty(t, got.Body.String())
		require.Equal(t, tag, got.Header().Get("Etag"))
		require.Equal(t, "no-cache", got.Header().Get("Cache-Control"))
	}
	require.Equal(t, http.StatusOK, h.get("/runs", "If-None-Match", tag).Code, "the plain file has another tag")
}
