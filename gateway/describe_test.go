package gateway_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/openapi"
)

const described = "/api/openapi.json"

func TestOpenAPIDocumentServedWithoutCredential(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("GET", described, "")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, string(openapi.Document), got.body)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-cache", got.header.Get("Cache-Control"))
	require.True(t, strings.HasPrefix(got.header.Get("X-Request-Id"), "req_"))
	require.Equal(t, strconv.Itoa(len(openapi.Document)), got.header.Get("Content-Length"))

	head := r.do("HEAD", described, "")
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
	require.Equal(t, got.header.Get("Etag"), head.header.Get("Etag"))
	require.Equal(t, got.header.Get("Content-Length"), head.header.Get("Content-Length"))
	require.Empty(t, r.reached(), "no service is called")

	var doc map[string]any
	require.NoError(t, json.Unmarshal(openapi.Document, &doc))
	require.Equal(t, "3.1.1", doc["openapi"])
	require.NotContains(t, doc, "servers", "the document is the same for every installation, so it names no server")
}

func TestOpenAPIDocumentNotModified(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	tag := r.do("GET", described, "").header.Get("Etag")
	require.Regexp(t, `^"[0-9a-f]{32}"$`, tag)
	for given, want := range map[string]int{
		tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304,
		`"x"`: 200, strings.Trim(tag, `"`): 200, "": 200, tag[:10]: 200, `"*"`: 200,
	} {
		got := r.do("GET", described, "", "If-None-Match", given)
		require.Equal(t, want, got.status, given)
		require.Equal(t, want == http.StatusNotModified, got.body == "", given)
		require.Equal(t, tag, got.header.Get("Etag"), given)
	}
	require.Equal(t, 304, r.do("GET", described, "", "If-None-Match", `"x"`, "If-None-Match", tag).status, "the tag may be in any of several If-None-Match lines")
	require.Equal(t, 304, r.do("HEAD", described, "", "If-None-Match", tag).status)
}

func TestOpenAPIDocumentIsReadOnlyAndRefusedWhileDraining(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	post := r.do("POST", described, "{}")
	require.Equal(t, http.StatusMethodNotAllowed, post.status)
	require.Equal(t, "GET, HEAD", post.header.Get("Allow"))
	r.gw.Drain()
	require.Equal(t, http.StatusServiceUnavailable, r.do("GET", described, "").status)
}
