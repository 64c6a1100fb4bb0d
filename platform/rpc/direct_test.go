package rpc_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// counting counts the connections that its listeners accept.
type counting struct {
	rpc.Network
	accepted *atomic.Int64
}

func (c counting) Listen(service string) (*rpc.Listener, error) {
	l, err := c.Network.Listen(service)
	if err == nil {
		l.Listener = countingListener{l.Listener, c.accepted}
	}
	return l, err
}

type countingListener struct {
	net.Listener
	accepted *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}

// countedMemory returns a harness on a memory network, and the number of connections that it has accepted.
func countedMemory(t *testing.T) (*harness, *atomic.Int64) {
	t.Helper()
	as, accepted := memoryNetwork(), new(atomic.Int64)
	return newHarness(t, func(t *testing.T, identity string) rpc.Network {
		t.Helper()
		return counting{as(t, identity), accepted}
	}), accepted
}

func TestMemory_unaryCallsNeedNoConnection(t *testing.T) {
	t.Parallel()
	w, accepted := countedMemory(t)
	w.serve(t, setup{service: "registry", handlers: echo()})
	_, err := healthv1.NewHealthClient(w.dial(t, "jobs", "registry")).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err) // the server runs
	require.EqualValues(t, 1, accepted.Load())
	cc := w.dial(t, "jobs", "registry")
	for range 3 {
		got, err := try(t.Context(), cc, "PeerOnce")
		require.NoError(t, err)
		require.Equal(t, "jobs|service|jobs", got)
	}
	require.EqualValues(t, 1, accepted.Load())
	for _, option := range []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1 << 20)} {
		require.NoError(t, cc.Invoke(t.Context(), "/"+testService+"/PeerOnce", ping(), ping(), option))
	}
	require.EqualValues(t, 2, accepted.Load(), "calls with other options use the connection")
}

func TestMemory_callsOfAgentsUseTheConnection(t *testing.T) {
	t.Parallel()
	w, accepted := countedMemory(t)
	w.serve(t, setup{service: "jobs", agents: true, handlers: echo()})
	got, err := try(t.Context(), w.dial(t, "node/nod_1", "jobs"), "Agent")
	require.NoError(t, err)
	require.Equal(t, "node/nod_1|agent|nod_1", got)
	require.Zero(t, accepted.Load(), "the listener for services is not used")
}

// A server gets only what a connection would carry, and neither side sees changes that the other side makes to a
// message later.
func TestCall_sharesNothingButTheMessage(t *testing.T) {
	t.Parallel()
	type key struct{}
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			kept := pingText("kept")
			w.serve(t, setup{service: "registry", handlers: &handlers{
				unary: func(ctx context.Context, _ string, in *dynamicpb.Message) (*dynamicpb.Message, error) {
					if ctx.Value(key{}) != nil || obs.RequestID(ctx) != "req_sent" || authn.CallerOf(ctx).Kind != authn.KindService {
						return pingText("leaked"), nil
					}
					in.Set(in.Descriptor().Fields().ByName("text"), kept.Get(kept.Descriptor().Fields().ByName("text")))
					return kept, nil
				},
			}})
			cc := w.dial(t, "jobs", "registry")
			ctx := authn.NewContext(context.WithValue(obs.WithRequestID(t.Context(), "req_sent"), key{}, "secret"), person(authn.RoleAdmin))
			in := pingText("asked")
			out, err := invoke(ctx, cc, "PeerOnce", in)
			require.NoError(t, err)
			require.Equal(t, "asked", textOf(in))
			require.Equal(t, "kept", textOf(out))
			out.Set(out.Descriptor().Fields().ByName("text"), in.Get(in.Descriptor().Fields().ByName("text")))
			require.Equal(t, "kept", textOf(kept))
		})
	}
}

func TestCall_metadataOfResponse(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: failing(func(ctx context.Context) error {
				if err := grpc.SetHeader(ctx, metadata.Pairs("etag", "first")); err != nil {
					return err
				}
				if err := grpc.SendHeader(ctx, metadata.Pairs("etag", "second")); err != nil {
					return err
				}
				if grpc.SetHeader(ctx, metadata.Pairs("etag", "late")) == nil {
					return status.Error(codes.Internal, "a header was changed after it was sent")
				}
				return grpc.SetTrailer(ctx, metadata.Pairs("count", "3"))
			})})
			var header, trailer metadata.MD
			err := w.dial(t, "jobs", "registry").Invoke(t.Context(), "/"+testService+"/PeerOnce", ping(), ping(), grpc.Header(&header), grpc.Trailer(&trailer))
			require.NoError(t, err)
			require.Equal(t, []string{"first", "second"}, header.Get("etag"))
			require.Equal(t, []string{"3"}, trailer.Get("count"))
		})
	}
}

func TestCall_endsWhileHandlerRuns(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			entered, release := make(chan struct{}), make(chan struct{})
			r := w.serve(t, setup{service: "registry", handlers: failing(func(context.Context) error {
				close(entered)
				<-release // unlike the caller, the handler ignores the end of its context
				return nil
			})})
			cc := w.dial(t, "jobs", "registry")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { _, err := try(ctx, cc, "PeerOnce"); ended <- err }()
			<-entered
			cancel()
			require.Equal(t, codes.Canceled, status.Code(<-ended))
			stopped := make(chan error, 1)
			go func() { stopped <- r.stop() }()
			select {
			case err := <-stopped:
				require.Fail(t, "the server did not wait for its handler", "%v", err)
			default:
			}
			close(release)
			require.NoError(t, <-stopped)
		})
	}
}

func TestCall_malformedMetadataIsRejected(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			cc := w.dial(t, "jobs", "registry")
			for key, value := range map[string]string{"x-text": "two\nlines", "x text": "space", "x-large": strings.Repeat("x", 200<<10)} {
				_, err := try(metadata.AppendToOutgoingContext(t.Context(), key, value), cc, "PeerOnce")
				require.Error(t, err, key)
			}
		})
	}
}

func TestCall_manyAtOnce(t *testing.T) {
	t.Parallel()
	const calls = 1100 // more than one connection allows
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			entered, release := make(chan struct{}, calls), make(chan struct{})
			w.serve(t, setup{service: "registry", handlers: failing(func(context.Context) error {
				entered <- struct{}{}
				<-release
				return nil
			})})
			cc, errs := w.dial(t, "jobs", "registry"), make(chan error, calls)
			for range calls {
				go func() { _, err := try(t.Context(), cc, "PeerOnce"); errs <- err }()
			}
			for range 1000 {
				<-entered
			}
			close(release)
			for range calls {
				require.NoError(t, <-errs)
			}
		})
	}
}
