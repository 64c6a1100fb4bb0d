package proxy

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// toEngine names the headers that an engine may see of a caller; all else stays here, above all what
// carries a credential or an address.
func toEngine(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Type",
		"Openai-Beta", "Openai-Organization", "Openai-Project", "User-Agent", "X-Session-Id", "X-Stainless-Lang",
		"X-Stainless-Package-Version":
		return true
	}
	return false
}

// fromEngine names the headers that a caller may see of an engine: an engine can set no cookie and no
// policy for our host.
func fromEngine(name string) bool {
	switch name {
	case "Cache-Control", "Content-Encoding", "Content-Language", "Content-Length", "Content-Type", "Date", "Etag",
		"Last-Modified", "Retry-After", "Vary", "X-Process-Time":
		return true
	}
	return strings.HasPrefix(name, "Openai-")
}

// engineHeader is exactly what the engine sees. What the caller's Connection header names is hop-by-hop
// by its own word.
func engineHeader(ctx context.Context, in http.Header, key, requestID string) http.Header {
	out := http.Header{}
	named := map[string]bool{}
	for _, list := range in.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range in {
		if toEngine(name) && !named[name] {
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
	trace(ctx, in, out)
	return out
}

// trace passes the trace on: ours where there is one, else the caller's where it is well formed.
func trace(ctx context.Context, in, out http.Header) {
	w3c := propagation.TraceContext{}
	if !oteltrace.SpanContextFromContext(ctx).IsValid() {
		ctx = w3c.Extract(ctx, propagation.HeaderCarrier(in))
	}
	w3c.Inject(ctx, propagation.HeaderCarrier(out))
}

// callerHeader writes what the caller sees of the engine's answer.
func callerHeader(out, in http.Header, requestID string) {
	for name, values := range in {
		if fromEngine(name) {
			out[name] = values
		}
	}
	if len(in["Content-Type"]) == 0 {
		out["Content-Type"] = nil // what the engine did not say is not guessed
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

// callerTrailer writes what the caller sees of what the engine says behind its answer.
func callerTrailer(out, in http.Header) {
	for name, values := range in {
		if fromEngine(name) && !strings.HasPrefix(name, "Content-") {
			out[http.TrailerPrefix+name] = values
		}
	}
}

func isStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}
