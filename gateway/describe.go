package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/gen/openapi"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// description answers with the OpenAPI document of this build, to everybody.
func (g *Gateway) description() http.Handler {
	sum := sha256.Sum256(openapi.Document)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		g.guard.Headers(h)
		h.Set("X-Request-Id", g.deps.IDs.New(id.Request))
		h.Set("Etag", tag)
		// Kept, and asked for again each time: another build answers another one.
		h.Set("Cache-Control", "no-cache")
		if known(r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(openapi.Document)))
		_, _ = w.Write(openapi.Document) // a client that is gone needs no answer
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
