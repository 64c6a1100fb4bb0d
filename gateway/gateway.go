package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gateway/internal/grpcproxy"
	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	"github.com/signalbox-dev/signalbox/gen/route"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Name is the service name in the gateway's certificate.
const Name = "gateway"

// Dialect is the JobSpec dialect that this control plane accepts.
const Dialect = "service/v1"

// Conns contains the connections to the services. The gateway does not close them.
type Conns struct {
	Auth, Jobs, Ingest, Registry, Inference grpc.ClientConnInterface
}

// Version is what GET /api/version returns in addition to the dialect.
type Version struct{ Server, Core string }

// Members returns the members of the JSON object that GET /api/version returns.
func (v Version) Members() map[string]string {
	return map[string]string{"server": v.Server, "core": v.Core, "api": Dialect}
}

// Deps are the dependencies of the gateway.
type Deps struct {
	Conns Conns
	// Ingest and Inference are the services' own handlers if they run in this process. If one is nil,
	// the gateway relays to the service's address in Config.
	Ingest, Inference http.Handler
	// RelayTLS returns the TLS settings for a service's HTTP listener; it may be nil if nothing is relayed.
	RelayTLS func(service string) *tls.Config
	// Blobs serves /api/blobs. It is nil if clients use URLs that the object store itself signs.
	Blobs http.Handler
	// Console and Docs are the built files of the console and of the documentation; nil means those in the binary.
	Console, Docs fs.FS
	Version       Version
	Clock         clock.Clock
	IDs           *id.Source
	Log           *slog.Logger
	// Tracer and Meter may be nil, which turns traces or metrics off.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

// Gateway is the public HTTP handler of an installation.
type Gateway struct {
	cfg      Config
	deps     Deps
	router   *router.Router
	rpcs     bindings
	codec    *restjson.Codec
	checker  *bearer.Checker
	watcher  *bearer.Watcher
	guard    *middleware.Guard
	hosts    middleware.Hosts
	proxies  middleware.Proxies
	response middleware.ResponseMetadata
	raw      map[string]http.Handler // handlers of raw (non-RPC) routes, called without log line, trace and recovery from panics
	own      map[string]http.Handler // handlers of the other raw routes; the handler rest calls them
	relay    httprelay.Relay         // serves plain calls to engines; nil if inference runs in another process
	rest     http.Handler            // serves all other routes, with log line, trace and recovery from panics
	shapes   map[*router.Route]*router.Params
	streams  map[*router.Route]*sse.Stream
	limit    sse.Limit
	wire     *grpcproxy.Server

	hold *middleware.InFlight
	// leaving is true while load balancers are to send new requests to other replicas. Requests are served, but each
	// response ends its connection.
	leaving atomic.Bool
	stop    chan struct{} // closed to end the streams and the long polls
	endStop func()
	idle    []func() // close the idle connections of the relays
}

// New returns a gateway. It starts no goroutine and opens no connection.
func New(ctx context.Context, cfg Config, d Deps) (*Gateway, error) {
	g := &Gateway{
		cfg: cfg, deps: d, codec: restjson.New(), response: middleware.ResponseMetadata{Cookie: cfg.cookie()},
		checker: bearer.NewChecker(authpeerv1.NewCredentialServiceClient(d.Conns.Auth), d.Clock, clock.Monotonic()),
		hold:    middleware.NewInFlight(), stop: make(chan struct{}),
		shapes: make(map[*router.Route]*router.Params), streams: make(map[*router.Route]*sse.Stream),
	}
	g.watcher = &bearer.Watcher{
		Checker: g.checker, Auth: authpeerv1.NewCredentialServiceClient(d.Conns.Auth), Log: d.Log,
	}
	g.endStop = sync.OnceFunc(func() { close(g.stop) })
	for _, step := range []func(context.Context) error{g.middlewares, g.handlers, g.fronts, g.calls} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	return g, nil
}

// middlewares builds the steps that a REST request passes before its handler: router, trusted proxies, host check,
// browser guard, log and trace.
func (g *Gateway) middlewares(context.Context) (err error) {
	if g.router, err = router.New(route.Table()); err != nil {
		return err
	}
	if g.proxies, err = middleware.ParseProxies(g.cfg.TrustedProxies); err != nil {
		return err
	}
	if g.hosts, err = middleware.ParseHosts(g.cfg.Public.URL, g.cfg.AllowedHosts); err != nil {
		return err
	}
	if g.guard, err = middleware.NewGuard(g.cfg.origin(), g.cfg.secure()); err != nil {
		return err
	}
	g.rest = middleware.Record(g.deps.Log, g.deps.Clock, g.proxies.Client, g.observed(http.HandlerFunc(g.serveREST)))
	return nil
}

// calls binds the RPC and stream routes of the table to the services' connections.
func (g *Gateway) calls(ctx context.Context) (err error) {
	g.wire = grpcproxy.New(route.Table(), gate{g}, g.deps.Clock, g.deps.Log)
	register := func(mux *runtime.ServeMux) error { return route.Register(ctx, mux, g.conn) }
	if g.rpcs, err = bind(g.router.Routes(), register, g.muxOptions()...); err != nil {
		return err
	}
	for _, rt := range g.router.Routes() {
		if rt.Kind == route.Raw {
			continue
		}
		taken, err := router.NewParams(rt)
		if err != nil {
			return err
		}
		g.shapes[rt] = taken
		if rt.Kind == route.Stream {
			if g.streams[rt], err = sse.New(taken.Method, g.conn(rt.Service), g.codec, g.deps.Clock); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Gateway) conn(service string) grpc.ClientConnInterface {
	switch service {
	case "auth":
		return g.deps.Conns.Auth
	case "jobs":
		return g.deps.Conns.Jobs
	case "ingest":
		return g.deps.Conns.Ingest
	case "registry":
		return g.deps.Conns.Registry
	case "search":
		return &grpcproxy.Search{Auth: g.deps.Conns.Auth, Jobs: g.deps.Conns.Jobs, Registry: g.deps.Conns.Registry}
	default:
		return g.deps.Conns.Inference
	}
}
