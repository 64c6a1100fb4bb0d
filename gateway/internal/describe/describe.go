// Package describe serves what describes the API to its clients: the OpenAPI document, and the descriptors by
// which gRPC tools know its calls. Both are of this very build, are open to everybody, and name no call that the
// gateway does not answer.
package describe

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/gen/openapi"
)

// Frame is what every answer carries besides.
type Frame struct {
	// Headers sets what browsers are told.
	Headers func(http.Header)
	// NewID makes the id of a request.
	NewID func() string
}

// OpenAPI answers with the OpenAPI document.
func (f Frame) OpenAPI() http.Handler { return f.document("application/json", openapi.Document) }

// document answers with bytes that change with the build alone.
func (f Frame) document(typ string, data []byte) http.Handler {
	sum := sha256.Sum256(data)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		f.Headers(h)
		h.Set("X-Request-Id", f.NewID())
		h.Set("Etag", tag)
		// Kept, and asked for again each time: another build answers another one.
		h.Set("Cache-Control", "no-cache")
		if known(r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", typ)
		h.Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data) // a client that is gone needs no answer
	})
}

// known reports whether one of the tags that a client has is this one (RFC 9110 13.1.2).
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
