package identity

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// setAccess sets the access option of a method until the function undo is called; nil removes the option. No other
// test may run at the same time.
func setAccess(m protoreflect.MethodDescriptor, a *optionsv1.Access) (undo func()) {
	options := m.Options()
	was := proto.GetExtension(options, optionsv1.E_Access)
	if a == nil {
		proto.ClearExtension(options, optionsv1.E_Access)
	} else {
		proto.SetExtension(options, optionsv1.E_Access, a)
	}
	return func() { proto.SetExtension(options, optionsv1.E_Access, was) }
}

// newMethodServer returns a server with one method of the product. Its handler always succeeds.
func newMethodServer(t *testing.T, m protoreflect.MethodDescriptor) *rpc.Server {
	t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	clk := clock.Real()
	s := rpc.NewServer(rpc.ServerOptions{
		Service: "registry", Log: slog.New(slog.DiscardHandler), Clock: clk, NewRequestID: func() string { return "r" },
		Verifier: authn.NewVerifier(clk, authn.StaticKeys(clk, key.Public())),
	})
	handler := func(_ any, ctx context.Context, _ func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		yes := func(context.Context, any) (any, error) { return &emptypb.Empty{}, nil }
		return intercept(ctx, &emptypb.Empty{}, &grpc.UnaryServerInfo{FullMethod: "/" + nameOf(m)}, yes)
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: string(m.Parent().FullName()), HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: string(m.Name()), Handler: handler}},
	}, s)
	return s
}

// accepts reports whether a method accepts a call from the service without a caller token.
func accepts(t *testing.T, m protoreflect.MethodDescriptor, service string) bool {
	t.Helper()
	bus := rpc.Memory(rpc.ClientOptions{Clock: clock.Real()})
	l, err := bus.As("registry").Listen("registry")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- newMethodServer(t, m).Serve(ctx, l) }()
	defer func() { stop(); require.NoError(t, <-ended) }()
	conn, err := bus.As(service).Dial("registry")
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	err = conn.Invoke(ctx, "/"+nameOf(m), &emptypb.Empty{}, &emptypb.Empty{})
	require.True(t, err == nil || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Unauthenticated), "%v", err)
	return err == nil
}

// TestServerCheck_methodWithoutAccessOption removes the access option of one method at a time. Check must
// then return an error.
func TestServerCheck_methodWithoutAccessOption(t *testing.T) { //nolint:paralleltest // it changes global options
	for _, m := range methods() {
		require.NoError(t, newMethodServer(t, m).Check(), nameOf(m))
		undo := setAccess(m, nil)
		err := newMethodServer(t, m).Check()
		undo()
		require.ErrorContains(t, err, "/"+nameOf(m)+": has no access option")
	}
}

// TestPeerOption_matchesTable checks for each method between services which services it accepts. It then
// changes the method's option for one service at a time, and requires that the result differs from the
// table.
func TestPeerOption_matchesTable(t *testing.T) { //nolint:paralleltest // it changes global options
	of := map[string]protoreflect.MethodDescriptor{}
	for _, m := range methods() {
		of[nameOf(m)] = m
	}
	for _, in := range peerMethods(t) {
		m := of[in.name]
		// TestServicesOnTheWire tests streams and the methods for nodes, which have no list of services.
		if in.callers[0] == "node" || m.IsStreamingClient() || m.IsStreamingServer() {
			continue
		}
		for _, service := range services() {
			listed := slices.Contains(in.callers, service)
			require.Equal(t, listed, accepts(t, m, service), "%s called by %s", in.name, service)
			a := proto.CloneOf(accessOf(t, m))
			if listed {
				a.Peers = slices.DeleteFunc(a.GetPeers(), func(s string) bool { return s == service })
			} else {
				a.Peers = append(a.GetPeers(), service)
			}
			if len(a.GetPeers()) == 0 {
				a.Peers = []string{"nobody"}
			}
			undo := setAccess(m, a)
			got := accepts(t, m, service)
			undo()
			require.NotEqual(t, listed, got, "%s called by %s: the changed option must change the result", in.name, service)
		}
	}
}
