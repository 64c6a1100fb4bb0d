package proxy

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// engineHeader returns the headers of the request to the engine: those of the caller that heldFromCaller lets pass and the
// caller's Connection header does not list, without values that contain a credential of this product.
func engineHeader(ctx context.Context, in http.Header, key, requestID string) http.Header {
	out := make(http.Header, len(in)+2)
	named := namedHop(in, heldFromCaller)
	for name, values := range in {
		if heldFromCaller(name) || named[name] {
			continue
		}
		if kept := withoutCredentials(values); len(kept) > 0 {
			out[name] = kept
		}
	}
	trace(ctx, in, out)
	if _, set := out["User-Agent"]; !set {
		out["User-Agent"] = []string{""} // suppresses the default of net/http
	}
	if key != "" {
		out.Set("Authorization", "Bearer "+key)
	}
	out.Set("X-Request-Id", requestID)
	return out
}

// trace adds the trace headers of the current span, if there is one. Otherwise it adds those of the caller, if they
// are well formed and contain no credential of this product.
func trace(ctx context.Context, in, out http.Header) {
	w3c := propagation.TraceContext{}
	if !oteltrace.SpanContextFromContext(ctx).IsValid() {
		ctx = w3c.Extract(ctx, propagation.HeaderCarrier(in))
	}
	w3c.Inject(ctx, propagation.HeaderCarrier(out))
	if state := out["Tracestate"]; len(state) > 0 && len(withoutCredentials(state)) == 0 {
		delete(out, "Tracestate")
	}
}

// callerHeader sets the headers of the response to the caller.
func callerHeader(out, in http.Header, to redirect, requestID string) {
	passFromEngine(out, in, in, to)
	if len(out["Content-Type"]) == 0 {
		out["Content-Type"] = nil // prevents net/http from guessing it
	}
	caching := in["Cache-Control"]
	if isStream(in) {
		out.Set("X-Accel-Buffering", "no")
		if len(caching) == 0 {
			caching = []string{"no-cache"}
		}
	}
	out.Set("Cache-Control", privateCaching(caching))
	out.Set("X-Request-Id", requestID)
	out.Set("X-Content-Type-Options", "nosniff")
	out.Set("Content-Security-Policy", "sandbox; default-src 'none'")
}

// passFromEngine copies the headers of an engine that heldFromEngine lets pass and the engine's Connection header, which is in
// head, does not list. It changes Location so that it leads to the engine, or leaves it out.
func passFromEngine(out, in, head http.Header, to redirect) {
	named := namedHop(head, heldFromEngine)
	for name, values := range in {
		switch {
		case heldFromEngine(name) || named[name]:
		case name == "Location":
			if location := to.location(values); location != "" {
				out[name] = []string{location}
			}
		case name == "Link" && to.namesEngine(values):
			// An address of the installation's network is not for callers.
		default:
			out[name] = values
		}
	}
}

// partHeader returns the headers for a part of a response that has no body of its own: the head of a 1xx response, or a
// trailer. It leaves out the headers that describe the body and its length, because only the final head decides them, and
// Location, because only the final response redirects.
func partHeader(in, head http.Header, to redirect) http.Header {
	out := http.Header{}
	passFromEngine(out, in, head, to)
	for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Location"} {
		delete(out, name)
	}
	return out
}

// privateCaching returns the engine's Cache-Control without the directives that let a shared cache store the response,
// because the response belongs to one caller. The result is always private.
func privateCaching(values []string) string {
	if len(values) == 0 {
		return "private"
	}
	kept := []string{"private"}
	for directive := range strings.SplitSeq(strings.Join(values, ","), ",") {
		directive = strings.TrimSpace(directive)
		name, _, _ := strings.Cut(strings.ToLower(directive), "=")
		switch strings.TrimSpace(name) {
		case "", "public", "s-maxage", "proxy-revalidate", "private":
			// `private="field"` restricts only fields, so it is replaced too.
		default:
			kept = append(kept, directive)
		}
	}
	return strings.Join(kept, ", ")
}

// callerTrailer sets the trailers of the response with the given head to the caller.
func callerTrailer(out, in, head http.Header, to redirect) {
	if len(in) == 0 {
		return
	}
	for name, values := range partHeader(in, head, to) {
		out[http.TrailerPrefix+name] = values
	}
}

func isStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}
