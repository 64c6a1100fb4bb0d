package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

const (
	// DefaultDeadline is the deadline of a unary call if the caller sets none.
	DefaultDeadline = 10 * time.Second
	// MaxMessage is the maximum size of a message in either direction, in bytes.
	MaxMessage = 4 << 20

	metadataRequestID = "x-request-id"
)

// Telemetry holds the providers for traces and metrics of calls. The zero value records nothing.
type Telemetry struct {
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

func (t Telemetry) options() []otelgrpc.Option {
	options := []otelgrpc.Option{
		otelgrpc.WithPropagators(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return !isHealth(info.FullMethodName) }),
	}
	if t.Tracer != nil {
		options = append(options, otelgrpc.WithTracerProvider(t.Tracer))
	}
	if t.Meter != nil {
		options = append(options, otelgrpc.WithMeterProvider(t.Meter))
	}
	return options
}

func (t Telemetry) on() bool { return t.Tracer != nil || t.Meter != nil }

// ClientOptions are the options of all clients of a network.
type ClientOptions struct {
	// Clock is used to check whether the caller's token has expired. It is required.
	Clock     clock.Clock
	Telemetry Telemetry
}

// newClient returns a connection to the service at the given target. Errors name the service if it cannot be reached.
// The parameter near makes the unary calls that need no connection; it may be nil.
func newClient(service, target string, o ClientOptions, near *direct, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	if o.Clock == nil {
		return nil, errors.New("rpc: ClientOptions must have a Clock")
	}
	c := client{clk: o.Clock, service: service, near: near}
	options := append([]grpc.DialOption{
		grpc.WithDefaultServiceConfig(serviceConfig()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		// Services connect to each other directly; HTTPS_PROXY is for external hosts.
		grpc.WithNoProxy(),
		// Reconnect quickly, so that the retries of a call reach a restarted service. grpc's default waits up to two
		// minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithChainStreamInterceptor(c.stream),
	}, more...)
	if o.Telemetry.on() {
		measured := otelgrpc.NewClientHandler(o.Telemetry.options()...)
		options = append(options, grpc.WithStatsHandler(measured))
		if near != nil {
			near.stats = []stats.Handler{measured}
		}
	}
	return grpc.NewClient(target, options...)
}

type client struct {
	clk     clock.Clock
	service string
	near    *direct
}

func (c client) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	ctx, md := c.outgoing(ctx)
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	if c.near != nil {
		if done, err := c.near.invoke(ctx, md, method, req, reply, o); done {
			return c.received(err)
		}
	}
	return c.received(invoke(ctx, method, req, reply, cc, o...))
}

func (c client) stream(
	ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, _ = c.outgoing(ctx)
	s, err := open(ctx, d, cc, method, o...)
	if err != nil {
		return nil, c.received(err)
	}
	return clientStream{s, c}, nil
}

// outgoing replaces the identity in the outgoing metadata, and returns the new context and its metadata. The token
// comes only from the verified caller of this request, never from forwarded metadata.
func (c client) outgoing(ctx context.Context) (context.Context, metadata.MD) {
	md, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		md = metadata.MD{}
	}
	md.Delete(authn.MetadataCaller)
	md.Delete(metadataRequestID)
	if token := authn.Token(ctx, c.clk.Now()); token != "" {
		md.Set(authn.MetadataCaller, token)
	}
	if id := obs.RequestID(ctx); id != "" {
		md.Set(metadataRequestID, id)
	}
	return metadata.NewOutgoingContext(ctx, md), md
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultDeadline)
}

// received returns the *fault.Error that the server returned, so that callers can use errors.As. If grpc itself reports
// that the service cannot be reached, the error names the service.
func (c client) received(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	f := fault.From(err)
	if st, ok := status.FromError(err); ok && st.Code() == codes.Unavailable && len(st.Details()) == 0 {
		named := *f
		named.Msg = c.service + " is not available"
		return &named
	}
	return f
}

type clientStream struct {
	grpc.ClientStream
	client client
}

func (s clientStream) RecvMsg(m any) error { return s.client.received(s.ClientStream.RecvMsg(m)) }
func (s clientStream) SendMsg(m any) error { return s.client.received(s.ClientStream.SendMsg(m)) }
func (s clientStream) CloseSend() error    { return s.client.received(s.ClientStream.CloseSend()) }

func (s clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, s.client.received(err)
}

// pushback is the trailer of a server's response that keeps grpc from retrying the call.
const pushback = "grpc-retry-pushback-ms"

type methodName struct {
	Service string `json:"service"`
	Method  string `json:"method"`
}

type retryPolicy struct {
	MaxAttempts          int      `json:"maxAttempts"`
	InitialBackoff       string   `json:"initialBackoff"`
	MaxBackoff           string   `json:"maxBackoff"`
	BackoffMultiplier    float64  `json:"backoffMultiplier"`
	RetryableStatusCodes []string `json:"retryableStatusCodes"`
}

type methodConfig struct {
	Name        []methodName `json:"name"`
	RetryPolicy retryPolicy  `json:"retryPolicy"`
}

// serviceConfig returns a config that balances calls over the addresses of a service. It also retries methods whose
// idempotency_level allows it, with at most four attempts and jitter.
func serviceConfig() string {
	doc := map[string]any{"loadBalancingConfig": []map[string]any{{"round_robin": map[string]any{}}}}
	if names := idempotent(protoregistry.GlobalFiles); len(names) > 0 {
		doc["methodConfig"] = []methodConfig{{Name: names, RetryPolicy: retryPolicy{
			MaxAttempts: 4, InitialBackoff: "0.1s", MaxBackoff: "1s", BackoffMultiplier: 2,
			RetryableStatusCodes: []string{"UNAVAILABLE"},
		}}}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return "{}"
	}
	return string(raw)
}

func idempotent(files *protoregistry.Files) []methodName {
	var names []methodName
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "signalbox.") {
			return true
		}
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				if idempotency(method) != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN {
					names = append(names, methodName{string(service.FullName()), string(method.Name())})
				}
			}
		}
		return true
	})
	slices.SortFunc(names, func(a, b methodName) int {
		return strings.Compare(a.Service+"/"+a.Method, b.Service+"/"+b.Method)
	})
	return names
}

// idempotency returns the idempotency_level of a method.
func idempotency(method protoreflect.Descriptor) descriptorpb.MethodOptions_IdempotencyLevel {
	options, _ := method.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel()
}
