package rpc_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

func bareServer() *rpc.Server {
	return rpc.NewServer(rpc.ServerOptions{
		Service: "registry", Log: slog.New(slog.DiscardHandler), Clock: clock.Real(), NewRequestID: func() string { return "r" },
	})
}

func TestServer_Serve_badMethod(t *testing.T) {
	t.Parallel()
	bus := rpc.Memory(rpc.ClientOptions{Clock: clock.Real()}).As("registry")
	for name := range badMethods() {
		s := bareServer()
		h := echo()
		s.RegisterService(h.desc(testService), h)
		s.RegisterService(h.desc("signalbox.rpctest.v1.BadService", name), h)
		require.ErrorContains(t, s.Check(), "/signalbox.rpctest.v1.BadService/"+name)
		l, err := bus.Listen("registry")
		require.NoError(t, err)
		require.ErrorContains(t, s.Serve(t.Context(), l), "BadService/"+name)
	}
	_, err := bus.Listen("registry")
	require.NoError(t, err, "Serve has closed its listener")
}

func TestServer_Check_reportsAllBadMethods(t *testing.T) {
	t.Parallel()
	s := bareServer()
	h := echo()
	s.RegisterService(h.desc("signalbox.rpctest.v1.BadService", "Missing", "Both"), h)
	s.RegisterService(h.desc("signalbox.rpctest.v1.Unknown", "M"), h)
	s.RegisterService(h.desc("signalbox.rpctest.v1.Ping", "M"), h)
	for _, want := range []string{
		"BadService/Missing: has no access option", "BadService/Both: the access option has both", "Unknown/M: has no descriptor", "Ping/M: does not belong to a service",
	} {
		require.ErrorContains(t, s.Check(), want)
	}
}

func TestServer_missingOptions(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, rpc.NewServer(rpc.ServerOptions{Service: "jobs"}).Check(), "must have Service")
	require.ErrorContains(t, bareServer().Serve(t.Context()), "must have at least one listener")
}

func TestServer_Serve_drainsCallsAndStreams(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			entered, release := make(chan string, 2), make(chan struct{})
			r := w.serve(t, setup{service: "registry", handlers: &handlers{
				unary: func(context.Context, string, *dynamicpb.Message) (*dynamicpb.Message, error) {
					entered <- "unary"
					<-release
					return pingText("done"), nil
				},
				stream: func(_ string, s grpc.ServerStream) error {
					entered <- "stream"
					return s.RecvMsg(ping()) // a handler that only receives must end too
				},
			}})
			cc := w.dial(t, "jobs", "registry")
			unary, stream, stopped := make(chan error, 1), make(chan error, 1), make(chan error, 1)
			go func() { _, err := try(t.Context(), cc, "PeerOnce"); unary <- err }()
			s, err := openStream(t.Context(), cc, "PeerStream")
			require.NoError(t, err)
			go func() { stream <- s.RecvMsg(ping()) }()
			<-entered
			<-entered
			go func() { stopped <- r.stop() }()

			err = <-stream
			require.True(t, fault.HasCode(err, rpc.CodeDraining), "%v", err)
			require.True(t, fault.Is(err, fault.Unavailable))
			select {
			case err := <-stopped:
				require.Fail(t, "the server stopped before the call was done", "%v", err)
			default:
			}
			close(release)
			require.NoError(t, <-unary)
			require.NoError(t, <-stopped)
			_, err = try(t.Context(), cc, "PeerOnce")
			require.True(t, fault.Is(err, fault.Unavailable))
		})
	}
}

func TestServer_Serve_abortsCallAfterStopTimeout(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			entered := make(chan struct{})
			r := w.serve(t, setup{
				service: "registry", change: func(o *rpc.ServerOptions) { o.StopTimeout = 50 * time.Millisecond },
				handlers: failing(func(ctx context.Context) error {
					close(entered)
					<-ctx.Done()
					return ctx.Err()
				}),
			})
			cc := w.dial(t, "jobs", "registry")
			got := make(chan error, 1)
			go func() { _, err := try(t.Context(), cc, "PeerOnce"); got <- err }()
			<-entered
			require.NoError(t, r.stop())
			require.Equal(t, codes.Unavailable, status.Code(<-got))
			require.Contains(t, r.logs.text(), "aborts calls")
		})
	}
}

func TestClient_reconnectsAfterRestart(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			first := w.serve(t, setup{service: "registry", handlers: echo()})
			cc := w.dial(t, "jobs", "registry")
			_, err := try(t.Context(), cc, "PeerOnce")
			require.NoError(t, err)
			require.NoError(t, first.stop())
			_, err = try(t.Context(), cc, "PeerOnce")
			require.True(t, fault.Is(err, fault.Unavailable))
			w.serve(t, setup{service: "registry", handlers: echo()})
			require.Eventually(t, func() bool {
				_, err := try(t.Context(), cc, "PeerOnce")
				return err == nil
			}, time.Minute, 20*time.Millisecond)
		})
	}
}

func TestServer_withoutVerifierRejectsCallers(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo(), change: func(o *rpc.ServerOptions) { o.Verifier = nil }})
			cc := w.dial(t, "gateway", "registry")
			_, err := try(w.calledBy(t, person("admin")), cc, "Admin")
			require.True(t, fault.Is(err, fault.Internal))
			_, err = try(t.Context(), cc, "Peer")
			require.NoError(t, err)
		})
	}
}

func TestServer_requiresCertificate(t *testing.T) {
	t.Parallel()
	w := newHarness(t, tcpNetwork(t))
	w.serve(t, setup{service: "registry", handlers: echo()})
	wire, ok := w.as(t, "registry").(recording)
	require.True(t, ok)
	cc, err := grpc.NewClient("passthrough:///"+wire.at.services["registry"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, cc.Close()) }()
	_, err = invoke(authn.Background(t.Context()), cc, "Peer", ping())
	require.Equal(t, codes.Unavailable, status.Code(err), "without a certificate the call fails")
}

func TestSettled_callsThatMayHaveChangedSomething(t *testing.T) {
	t.Parallel()
	var failed, unsettled error
	var settled int
	w := newHarness(t, memoryNetwork())
	w.serve(t, setup{
		service: "registry",
		handlers: &handlers{unary: func(context.Context, string, *dynamicpb.Message) (*dynamicpb.Message, error) {
			return pingText("done"), failed
		}},
		settle: func(context.Context) error { settled++; return unsettled },
	})
	cc := w.dial(t, "jobs", "registry")
	reused, journal := fault.New(fault.Unauthenticated, "reused", "the token was used twice"), fault.New(fault.Unavailable, "journal", "the folder is full")
	for name, c := range map[string]struct {
		method                  string
		failed, unsettled, want error
		settled                 int
	}{
		"success":                    {method: "PeerOnce", settled: 1},
		"settle fails":               {method: "PeerOnce", unsettled: journal, want: journal, settled: 1},
		"method fails":               {method: "PeerOnce", failed: reused, want: reused, settled: 1},
		"both fail":                  {method: "PeerOnce", failed: reused, unsettled: journal, want: reused, settled: 1},
		"method without side effect": {method: "Peer", unsettled: journal},
	} {
		failed, unsettled, settled = c.failed, c.unsettled, 0
		_, err := try(t.Context(), cc, c.method)
		require.Equal(t, c.settled, settled, name)
		if c.want == nil {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.want.Error(), name)
		}
	}
}

// A client must open another connection now and then, because it finds new replicas only then. Streams last longer.
func TestServer_oldConnectionTakesNoNewCalls(t *testing.T) {
	t.Parallel()
	w := newHarness(t, tcpNetwork(t))
	handle := echo()
	handle.unary = func(ctx context.Context, _ string, _ *dynamicpb.Message) (*dynamicpb.Message, error) {
		p, _ := peer.FromContext(ctx)
		return pingText(p.Addr.String()), nil
	}
	w.serve(t, setup{service: "registry", handlers: handle, change: func(o *rpc.ServerOptions) { o.ConnectionAge = 50 * time.Millisecond }})
	cc := w.dial(t, "jobs", "registry")
	s, err := openStream(t.Context(), cc, "PeerStream")
	require.NoError(t, err)
	require.NoError(t, s.SendMsg(ping()))
	require.NoError(t, s.RecvMsg(ping()))
	addresses := map[string]bool{}
	require.Eventually(t, func() bool {
		from, err := try(t.Context(), cc, "PeerOnce")
		require.NoError(t, err, "no call may fail when a connection is replaced")
		addresses[from] = true
		return len(addresses) >= 3
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, s.SendMsg(ping()))
	require.NoError(t, s.RecvMsg(ping()), "a stream must outlive the age of its connection")
}
