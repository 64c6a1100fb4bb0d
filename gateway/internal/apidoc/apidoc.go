// Package apidoc serves the API's descriptions: the OpenAPI document and the protobuf descriptors that gRPC
// tools need. Both match this build, need no credential, and list only calls that the gateway serves.
package apidoc

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/gen/openapi"
)

// Headers provides the headers that every response of this package has.
type Headers struct {
	// Headers sets the security headers for browsers.
	Headers func(http.Header)
	// NewID returns a new request id.
	NewID func() string
}

// OpenAPI returns a handler that serves the OpenAPI document.
func (f Headers) OpenAPI() http.Handler { return f.document("application/json", openapi.Document) }

// document returns a handler that serves the given data, which changes only with the build.
func (f Headers) document(typ string, data []byte) http.Handler {
	sum := sha256.Sum256(data)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		f.Headers(h)
		h.Set("X-Request-Id", f.NewID())
		h.Set("Etag", tag)
		// Caches must revalidate each time: another build may serve another document.
		h.Set("Cache-Control", "no-cache")
		if known(r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", typ)
		h.Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data) // the client may be gone
	})
}

// known reports whether one of the client's If-None-Match lines matches the tag (RFC 9110 13.1.2).
func known(given []string, tag string) bool {
	for _, line := range given {
		for each := range strings.SplitSeq(line, ",") {
			each = strings.TrimPrefix(strings.TrimSpace(each), "W/")
			if each == tag || each == "*" {
				return true
			}
		}
	}
	return false
}
