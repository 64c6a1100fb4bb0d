package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// bindings are the handlers that grpc-gateway generated, by route. The mux that they are registered with matches paths
// only in bind, once for each route. No request passes through the mux: the router matches the path of a request, and
// the result travels in the request's middleware.Call.
type bindings map[*router.Route]runtime.HandlerFunc

// bind returns the handlers of the RPC routes. The function register adds all handlers to a mux, as route.Register
// does.
func bind(routes []*router.Route, register func(*runtime.ServeMux) error, options ...runtime.ServeMuxOption) (bindings, error) {
	var found struct {
		handler runtime.HandlerFunc
		pattern string
	}
	mux := runtime.NewServeMux(append(options, runtime.WithRoutingErrorHandler(notFound), runtime.WithMiddlewares(
		func(handler runtime.HandlerFunc) runtime.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request, _ map[string]string) {
				p, _ := runtime.HTTPPattern(r.Context())
				found.handler, found.pattern = handler, strings.ReplaceAll(p.String(), "=*}", "}")
			}
		}))...)
	if err := register(mux); err != nil {
		return nil, err
	}
	all := make(bindings)
	for _, rt := range routes {
		if rt.Kind != route.RPC {
			continue
		}
		found.handler, found.pattern = nil, ""
		mux.ServeHTTP(nil, &http.Request{Method: rt.Method, URL: &url.URL{Path: rt.Pattern}}) // a pattern matches itself
		if found.pattern != rt.Pattern {
			return nil, fmt.Errorf("route %s %s: its generated handler is that of %q", rt.Method, rt.Pattern, found.pattern)
		}
		all[rt] = found.handler
	}
	return all, nil
}

// notFound handles a pattern that matches no generated handler. It does nothing, so that bind reports the pattern.
func notFound(context.Context, *runtime.ServeMux, runtime.Marshaler, http.ResponseWriter, *http.Request, int) {
}

// muxOptions returns the options by which the generated handlers read requests and write responses. The gateway selects
// the metadata of the call (middleware.Metadata) and the headers of the response (g.response), so grpc-gateway forwards
// no headers.
func (g *Gateway) muxOptions() []runtime.ServeMuxOption {
	none := func(string) (string, bool) { return "", false }
	return []runtime.ServeMuxOption{
		runtime.WithMarshalerOption(runtime.MIMEWildcard, g.codec),
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithOutgoingTrailerMatcher(none),
		runtime.WithMetadata(func(ctx context.Context, _ *http.Request) metadata.MD { return middleware.CallOf(ctx).Metadata }),
		runtime.WithForwardResponseOption(g.response.Forward),
		runtime.WithErrorHandler(g.callFailed),
	}
}

// callFailed writes the error of a call that failed in the service, in the decoder or in transit.
func (g *Gateway) callFailed(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	c := middleware.CallOf(ctx)
	f := middleware.WithLocations(c, err)
	if f.Kind == fault.Internal && !foreign(err) {
		g.deps.Log.ErrorContext(ctx, "could not build the response", slog.String("rpc", c.RPC), slog.Any("error", err))
	}
	if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
		g.response.Headers(w.Header(), c, md.HeaderMD)
	}
	g.fail(w, r, f)
}

// foreign reports whether err came from a service, which has then logged it.
func foreign(err error) bool {
	var own *fault.Error
	var carrier interface{ GRPCStatus() *status.Status }
	return errors.As(err, &own) || errors.As(err, &carrier)
}

// observed adds traces and metrics to the calls' handler. A client's own trace is linked, not continued. Paths and
// queries may contain secret codes, so a trace contains the route's pattern instead.
func (g *Gateway) observed(next http.Handler) http.Handler {
	if g.deps.Tracer == nil && g.deps.Meter == nil {
		return next
	}
	options := []otelhttp.Option{
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method + " " + r.Pattern }),
	}
	if g.deps.Tracer != nil {
		options = append(options, otelhttp.WithTracerProvider(g.deps.Tracer))
	}
	if g.deps.Meter != nil {
		options = append(options, otelhttp.WithMeterProvider(g.deps.Meter))
	}
	traced := otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, readdressed(r, middleware.CallOf(r.Context()).URL))
	}), "gateway", options...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		traced.ServeHTTP(w, readdressed(r, &url.URL{Path: r.Pattern}))
	})
}

func readdressed(r *http.Request, at *url.URL) *http.Request {
	out := r.WithContext(r.Context())
	out.URL = at
	return out
}
