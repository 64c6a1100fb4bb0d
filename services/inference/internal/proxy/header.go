package proxy

import (
	"net/http"
	"strings"
)

// toEngine are the headers that an engine may see of a caller; all else stays here, above all what
// carries a credential or an address.
var toEngine = map[string]bool{ //nolint:gochecknoglobals // a constant set.
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Content-Encoding": true,
	"Content-Language": true, "Content-Type": true, "Openai-Beta": true, "Openai-Organization": true,
	"Openai-Project": true, "Traceparent": true, "Tracestate": true, "User-Agent": true, "X-Session-Id": true,
	"X-Stainless-Lang": true, "X-Stainless-Package-Version": true,
}

// fromEngine are the headers that a caller may see of an engine: an engine can set no cookie and no
// policy for our host.
var fromEngine = map[string]bool{ //nolint:gochecknoglobals // a constant set.
	"Cache-Control": true, "Content-Encoding": true, "Content-Language": true, "Content-Length": true,
	"Content-Type": true, "Date": true, "Etag": true, "Last-Modified": true, "Retry-After": true, "Vary": true,
	"X-Process-Time": true,
}

// fromEnginePrefix opens families of headers that engines answer with.
const fromEnginePrefix = "Openai-"

// engineHeader is exactly what the engine sees. What the caller's Connection header names is hop-by-hop
// by its own word.
func engineHeader(in http.Header, key, requestID string) http.Header {
	out := http.Header{}
	named := map[string]bool{}
	for _, list := range in.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range in {
		if toEngine[name] && !named[name] {
			out[name] = values
		}
	}
	if _, set := out["User-Agent"]; !set {
		out["User-Agent"] = []string{""} // no default of the library's
	}
	if key != "" {
		out.Set("Authorization", "Bearer "+key)
	}
	out.Set("X-Request-Id", requestID)
	return out
}

// callerHeader writes what the caller sees of the engine's answer.
func callerHeader(out, in http.Header, requestID string) {
	for name, values := range in {
		if fromEngine[name] || strings.HasPrefix(name, fromEnginePrefix) {
			out[name] = values
		}
	}
	out.Set("X-Request-Id", requestID)
	out.Set("X-Content-Type-Options", "nosniff")
	out.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if isStream(in) {
		out.Set("X-Accel-Buffering", "no")
		if out.Get("Cache-Control") == "" {
			out.Set("Cache-Control", "no-cache")
		}
	}
}

func isStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}
