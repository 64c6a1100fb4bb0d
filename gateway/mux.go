package gateway

import (
	"context"
	"errors"
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
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// newMux returns the grpc-gateway mux. The mux makes no decisions: the router has chosen the route, the gateway has
// selected headers and metadata, and sameRoute checks that the mux chose the same route as the router.
func (g *Gateway) newMux() *runtime.ServeMux {
	none := func(string) (string, bool) { return "", false }
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, g.codec),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithOutgoingTrailerMatcher(none),
		runtime.WithMetadata(func(ctx context.Context, _ *http.Request) metadata.MD { return middleware.CallOf(ctx).Metadata }),
		runtime.WithForwardResponseOption(g.answer.Forward),
		runtime.WithErrorHandler(g.callFailed),
		runtime.WithRoutingErrorHandler(g.unrouted),
		runtime.WithMiddlewares(g.sameRoute),
	)
}

// sameRoute fails a request if the mux and the router matched different routes. Otherwise a path that they parse
// differently would be served with the checks of another route.
func (g *Gateway) sameRoute(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		c := middleware.CallOf(r.Context())
		if p, ok := runtime.HTTPPattern(r.Context()); !ok || strings.ReplaceAll(p.String(), "=*}", "}") != c.Pattern {
			g.deps.Log.ErrorContext(r.Context(), "mux and router matched different routes", slog.String("route", c.Pattern), slog.String("mux", p.String()))
			g.fail(w, r, fault.New(fault.Internal, "", "mux matched %s", p.String()))
			return
		}
		next(w, r, params)
	}
}

func (g *Gateway) unrouted(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int) {
	g.deps.Log.ErrorContext(ctx, "mux has no handler for a route of the table", slog.String("route", r.Pattern))
	g.fail(w, r, fault.New(fault.Internal, "", "no handler for %s", r.Pattern))
}

// callFailed writes the error of a call that failed in the service, in the decoder or in transit.
func (g *Gateway) callFailed(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	c := middleware.CallOf(ctx)
	f := middleware.WithLocations(c, err)
	if f.Kind == fault.Internal && !foreign(err) {
		g.deps.Log.ErrorContext(ctx, "could not build the response", slog.String("rpc", c.RPC), slog.Any("error", err))
	}
	if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
		g.answer.Headers(w.Header(), c, md.HeaderMD)
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
