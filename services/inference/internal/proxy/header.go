package proxy

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// toEngine reports whether a request header is passed to the engine. Other headers are dropped, in particular those
// with a credential or an address. Trace headers and the headers of a WebSocket handshake are added separately.
func toEngine(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Type",
		"Openai-Beta", "Openai-Organization", "Openai-Project", "User-Agent", "X-Session-Id", "X-Stainless-Lang",
		"X-Stainless-Package-Version":
		return true
	}
	return false
}

// fromEngine reports whether a response header is passed to the caller. An engine must not be able to set a cookie or
// a policy for this host.
func fromEngine(name string) bool {
	switch name {
	case "Cache-Control", "Content-Encoding", "Content-Language", "Content-Length", "Content-Type", "Date", "Etag",
		"Last-Modified", "Retry-After", "Vary", "X-Process-Time":
		return true
	}
	return strings.HasPrefix(name, "Openai-")
}

// engineHeader returns the headers of the request to the engine. Headers that the caller's Connection header
// lists are hop-by-hop and are dropped.
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
		out["User-Agent"] = []string{""} // suppresses the default of net/http
	}
	if key != "" {
		out.Set("Authorization", "Bearer "+key)
	}
	out.Set("X-Request-Id", requestID)
	trace(ctx, in, out)
	return out
}

// trace adds the trace headers of the current span, if there is one. Otherwise it adds those of the caller, if they
// are well formed.
func trace(ctx context.Context, in, out http.Header) {
	w3c := propagation.TraceContext{}
	if !oteltrace.SpanContextFromContext(ctx).IsValid() {
		ctx = w3c.Extract(ctx, propagation.HeaderCarrier(in))
	}
	w3c.Inject(ctx, propagation.HeaderCarrier(out))
}

// callerHeader sets the headers of the response to the caller.
func callerHeader(out, in http.Header, requestID string) {
	for name, values := range in {
		if fromEngine(name) {
			out[name] = values
		}
	}
	if _, set := out["Cache-Control"]; set {
		out.Set("Cache-Control", privateCaching(in.Values("Cache-Control")))
	}
	if len(in["Content-Type"]) == 0 {
		out["Content-Type"] = nil // prevents net/http from guessing it
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

// privateCaching returns the engine's Cache-Control without the directives that let a shared cache store the response,
// because the response belongs to one caller.
func privateCaching(values []string) string {
	kept := []string{}
	closed := false // the engine itself forbids shared caches
	for directive := range strings.SplitSeq(strings.Join(values, ","), ",") {
		directive = strings.TrimSpace(directive)
		name, _, _ := strings.Cut(strings.ToLower(directive), "=")
		switch strings.TrimSpace(name) {
		case "", "public", "s-maxage", "proxy-revalidate", "private":
			// `private="field"` restricts only fields, so it is replaced too.
			continue
		case "no-store":
			closed = true
		}
		kept = append(kept, directive)
	}
	if !closed {
		kept = append([]string{"private"}, kept...)
	}
	return strings.Join(kept, ", ")
}

// callerTrailer sets the trailers of the response to the caller.
func callerTrailer(out, in http.Header) {
	for name, values := range in {
		if fromEngine(name) && !strings.HasPrefix(name, "Content-") && name != "Cache-Control" {
			out[http.TrailerPrefix+name] = values
		}
	}
}

func isStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}
