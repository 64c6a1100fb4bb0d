package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	defaultStopTimeout = 10 * time.Second
	handshakeTimeout   = 10 * time.Second
	maxStreams         = 1000
	maxHeaders         = 160 << 10 // a caller token of 64 KiB, other headers and a reserve
)

// ConnectionAge is how long a connection takes new calls; grpc varies it by a tenth. A client then opens another one
// and looks up the addresses of the service again, so that replicas that were added get their share of the calls. The
// calls on the old connection continue without a limit, because streams such as that of an agent last for days. The HTTP
// listeners of ingest and inference have the same limit.
const ConnectionAge = 5 * time.Minute

// ServerOptions are the options of a server. Service, Log, Clock and NewRequestID are required.
type ServerOptions struct {
	Service string
	Log     *slog.Logger
	Clock   clock.Clock
	// NewRequestID returns the id for calls without one.
	NewRequestID func() string
	// Verifier verifies callers. It may be nil if all methods are for services only.
	Verifier *authn.Verifier
	// Roles returns all roles of a caller who has more roles than fit into a token. If it is nil, only the roles in
	// the token are used.
	Roles authn.FetchRoles
	// Archived reports whether a project is archived. If it is nil, changes in archived projects are not rejected.
	Archived authn.FetchArchived
	// Classify converts an error of a library into a fault; it returns other errors unchanged.
	Classify  func(error) error
	Telemetry Telemetry
	// StopTimeout is how long running calls may take after Serve's context is done; zero means 10 s.
	StopTimeout time.Duration
	// ConnectionAge replaces the constant ConnectionAge, unless it is zero.
	ConnectionAge time.Duration
}

// Server serves the methods that are registered on it. It is a grpc.ServiceRegistrar.
type Server struct {
	options ServerOptions
	grpc    *grpc.Server
	health  *health.Server
	rules   map[string]rule
	methods map[string]method
	stats   []stats.Handler

	drain    context.Context // done when streams must end
	startEnd context.CancelFunc
	calls    *directCalls
	abort    context.Context // done when direct calls must end
	endCalls context.CancelFunc
}

// NewServer returns a Server. It starts nothing.
func NewServer(o ServerOptions) *Server {
	if o.StopTimeout == 0 {
		o.StopTimeout = defaultStopTimeout
	}
	if o.ConnectionAge == 0 {
		o.ConnectionAge = ConnectionAge
	}
	s := &Server{
		options: o, health: health.NewServer(), methods: map[string]method{}, calls: newDirectCalls(),
		stats: []stats.Handler{newSizes(o.Telemetry.Meter, o.Log, o.Clock)},
	}
	if o.Telemetry.on() {
		s.stats = append(s.stats, otelgrpc.NewServerHandler(o.Telemetry.options()...))
	}
	s.drain, s.startEnd = context.WithCancel(context.Background())
	s.abort, s.endCalls = context.WithCancel(context.Background())
	options := append(measuredBy(s.stats),
		grpc.Creds(handshakes{}),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaders),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 15 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionAge: o.ConnectionAge}),
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream),
	)
	s.grpc = grpc.NewServer(options...)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	s.SetServing(false)
	return s
}

func measuredBy(handlers []stats.Handler) []grpc.ServerOption {
	options := make([]grpc.ServerOption, 0, len(handlers))
	for _, h := range handlers {
		options = append(options, grpc.StatsHandler(h))
	}
	return options
}

// RegisterService adds a service. Generated Register functions call it. It must not be called after Serve.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(d, impl)
	maps.Copy(s.methods, methodsOf(d, impl))
}

// method is a registered unary method.
type method struct {
	handle grpc.MethodHandler
	impl   any
}

// methodsOf returns the unary methods of a service by their full names.
func methodsOf(d *grpc.ServiceDesc, impl any) map[string]method {
	methods := make(map[string]method, len(d.Methods))
	for _, m := range d.Methods {
		methods["/"+d.ServiceName+"/"+m.MethodName] = method{m.Handler, impl}
	}
	return methods
}

// SetServing sets the status in the health service. It does not reject calls.
func (s *Server) SetServing(yes bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if yes {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(s.options.Service, status)
}

// Check validates the options and the access options of all registered methods, as Serve does.
func (s *Server) Check() error {
	o := s.options
	if o.Service == "" || o.Log == nil || o.Clock == nil || o.NewRequestID == nil {
		return errors.New("rpc: ServerOptions must have Service, Log, Clock and NewRequestID")
	}
	if _, err := rulesOf(s.grpc.GetServiceInfo()); err != nil {
		return fmt.Errorf("rpc server of service %s: %w", o.Service, err)
	}
	return nil
}

// Serve serves on all listeners until ctx is done or a listener fails. Then it accepts no new calls, ends streams at
// once with a fault of code draining, and lets unary calls finish within StopTimeout. It closes the listeners. Serve
// must be called at most once.
func (s *Server) Serve(ctx context.Context, listeners ...*Listener) error {
	defer s.startEnd()
	defer s.endCalls()
	err := s.Check()
	if err == nil && len(listeners) == 0 {
		err = errors.New("rpc: Serve must have at least one listener")
	}
	if err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	// Check has already reported errors.
	s.rules, _ = rulesOf(s.grpc.GetServiceInfo())
	defer attach(s, listeners)()
	s.SetServing(true) // before the first call can check the health
	failed := make(chan error, len(listeners))
	var serving sync.WaitGroup
	for _, l := range listeners {
		serving.Go(func() {
			if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				failed <- fmt.Errorf("serve %s: %w", s.options.Service, err)
			}
		})
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.stop(context.WithoutCancel(ctx))
	serving.Wait()
	return err
}

// stop waits until the running calls have finished. After StopTimeout it aborts the remaining ones.
func (s *Server) stop(ctx context.Context) {
	s.health.Shutdown()
	s.startEnd()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.calls.close()
		s.grpc.GracefulStop()
		s.calls.wait()
	}()
	timer := s.options.Clock.NewTimer(s.options.StopTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
		s.options.Log.WarnContext(ctx, "rpc server aborts calls that did not finish in time",
			slog.String("service", s.options.Service), slog.Duration("timeout", s.options.StopTimeout))
		s.endCalls()
		s.grpc.Stop()
		<-done
	}
}

// Refuse returns err to every call of any method until ctx is done. It closes the listener.
func Refuse(ctx context.Context, l *Listener, err error) error {
	server := grpc.NewServer(grpc.Creds(handshakes{}), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return err }))
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("refuse calls: %w", err)
	}
	return nil
}

// Settled returns a registrar that registers services on r. It wraps each unary method, except those that the proto
// declares free of side effects. After a wrapped method has returned, it calls the function settle. The response is
// sent only if settle returns nil; otherwise the caller receives the error of settle. No method can therefore
// acknowledge a change before settle has returned. A method that fails may have changed something too, such as the
// session whose refresh token was used twice; its caller receives the method's own error.
func Settled(r grpc.ServiceRegistrar, settle func(context.Context) error) grpc.ServiceRegistrar {
	return settled{r, settle}
}

type settled struct {
	grpc.ServiceRegistrar

	settle func(context.Context) error
}

// RegisterService implements grpc.ServiceRegistrar.
func (s settled) RegisterService(desc *grpc.ServiceDesc, impl any) {
	waiting := *desc
	waiting.Methods = slices.Clone(desc.Methods)
	for i, m := range waiting.Methods {
		if !readOnly(desc.ServiceName, m.MethodName) {
			waiting.Methods[i].Handler = s.handler(m.Handler)
		}
	}
	s.ServiceRegistrar.RegisterService(&waiting, impl)
}

// handler calls settle inside the server's interceptor, which sets the deadline of the call and converts its error.
func (s settled) handler(handle grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		return handle(srv, ctx, decode, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return intercept(ctx, req, info, func(ctx context.Context, req any) (any, error) {
				out, err := next(ctx, req)
				unsettled := s.settle(ctx)
				if err != nil {
					return nil, err
				}
				return out, unsettled
			})
		})
	}
}

// readOnly reports whether the proto declares that the method changes nothing.
func readOnly(service, method string) bool {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service).Append(protoreflect.Name(method)))
	return err == nil && idempotency(found) == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}
