package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// engineHeader returns the header of the request to the engine: the lines of the caller that heldFromCaller lets pass and the
// caller's Connection header does not list, without values that contain a credential of this product.
func engineHeader(ctx context.Context, in httprelay.Header, key, requestID string) httprelay.Header {
	out := make(httprelay.Header, 0, len(in)+2)
	named := namedHop(in, heldFromCaller)
	for i := range in {
		if f := &in[i]; !heldFromCaller(f.Name) && !named[f.Name] && !secret.Holds(f.Value) {
			out = append(out, *f)
		}
	}
	trace(ctx, in, &out)
	if key != "" {
		out.Add("Authorization", "Bearer "+key)
	}
	out.Add("X-Request-Id", requestID)
	return out
}

// trace adds the trace headers of the current span, if there is one. Otherwise it adds those of the caller, if they
// are well formed and contain no credential of this product.
func trace(ctx context.Context, in httprelay.Header, out *httprelay.Header) {
	w3c := propagation.TraceContext{}
	if !oteltrace.SpanContextFromContext(ctx).IsValid() {
		if !in.Has("Traceparent") {
			return
		}
		ctx = w3c.Extract(ctx, carrier{&in})
	}
	w3c.Inject(ctx, carrier{out})
	if secret.Holds(out.Get("Tracestate")) {
		out.Del("Tracestate")
	}
}

// carrier gives package propagation access to a header.
type carrier struct{ *httprelay.Header }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(name string) string { return c.Header.Get(http.CanonicalHeaderKey(name)) }

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(name, value string) { c.Header.Set(http.CanonicalHeaderKey(name), value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string {
	names := make([]string, len(*c.Header))
	for i, f := range *c.Header {
		names[i] = f.Name
	}
	return names
}

// callerHeader returns the header of the response to the caller.
func callerHeader(in httprelay.Header, to redirect, requestID string) httprelay.Header {
	out := passFromEngine(in, in, to)
	caching := in.Values("Cache-Control")
	if isStream(in) {
		out.Set("X-Accel-Buffering", "no")
		if len(caching) == 0 {
			caching = []string{"no-cache"}
		}
	}
	return append(out, httprelay.Field{Name: "Cache-Control", Value: privateCaching(caching)}, httprelay.Field{Name: "X-Request-Id", Value: requestID},
		httprelay.Field{Name: "X-Content-Type-Options", Value: "nosniff"},
		httprelay.Field{Name: "Content-Security-Policy", Value: "sandbox; default-src 'none'"})
}

// passFromEngine returns the lines of an engine that heldFromEngine lets pass and the engine's Connection header, which is
// in head, does not list. It changes Location so that it leads to the engine, or leaves it out.
func passFromEngine(in, head httprelay.Header, to redirect) httprelay.Header {
	const added = 6 // by callerHeader and by the connection
	out := make(httprelay.Header, 0, len(in)+added)
	named := namedHop(head, heldFromEngine)
	for i := range in {
		switch f := &in[i]; {
		case heldFromEngine(f.Name) || named[f.Name]:
		case f.Name == "Location":
			if location := to.location(in.Values(f.Name)); location != "" {
				out = append(out, httprelay.Field{Name: f.Name, Value: location})
			}
		case f.Name == "Link" && to.namesEngine(in.Values(f.Name)):
			// An address of the installation's network is not for callers.
		default:
			out = append(out, *f)
		}
	}
	return out
}

// partHeader returns the lines for a part of a response that has no body of its own: the head of a 1xx response, or a
// trailer. It leaves out those that describe the body and its length, because only the final head decides them, and
// Location, because only the final response redirects.
func partHeader(in, head httprelay.Header, to redirect) httprelay.Header {
	return slices.DeleteFunc(passFromEngine(in, head, to), func(f httprelay.Field) bool {
		switch f.Name {
		case "Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Location":
			return true
		}
		return false
	})
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

func isStream(h httprelay.Header) bool {
	const stream = "text/event-stream"
	kind := h.Get("Content-Type")
	return len(kind) >= len(stream) && strings.EqualFold(kind[:len(stream)], stream)
}
