package rpc_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

func TestClient_forwardsCaller(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			onward := w.dial(t, "jobs", "registry")
			w.serve(t, setup{service: "jobs", handlers: &handlers{
				unary: func(ctx context.Context, name string, in *dynamicpb.Message) (*dynamicpb.Message, error) {
					if name == "PeerOnce" { // background work
						ctx = authn.Background(ctx)
					}
					return invoke(ctx, onward, "Peer", in)
				},
				stream: func(_ string, s grpc.ServerStream) error {
					out, err := invoke(s.Context(), onward, "Peer", ping())
					if err != nil {
						return err
					}
					return s.SendMsg(out)
				},
			}})
			first := w.dial(t, "gateway", "jobs")
			ctx := w.calledBy(t, person("operator"))
			for name, want := range map[string]string{
				"User": "jobs|user|usr_1", "PeerOnce": "jobs|service|jobs", "UserStream": "jobs|user|usr_1",
			} {
				got, err := try(ctx, first, name)
				require.NoError(t, err, name)
				require.Equal(t, want, got, name)
			}
		})
	}
}

func TestClient_expiredTokenIsNotForwarded(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			cc := w.dial(t, "jobs", "registry")
			token, _, err := w.signer.Sign(person("operator"))
			require.NoError(t, err)
			ctx := authn.WithToken(t.Context(), token, w.clk.Now())
			got, err := try(ctx, cc, "Peer")
			require.NoError(t, err, "the call continues as the service itself")
			require.Equal(t, "jobs|service|jobs", got)
		})
	}
}

func TestCall_messageTooLarge(t *testing.T) {
	t.Parallel()
	payload := func(n int) *dynamicpb.Message {
		m := ping()
		m.Set(pingType().Fields().ByName("payload"), protoreflect.ValueOfBytes(make([]byte, n)))
		return m
	}
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: &handlers{
				unary: func(_ context.Context, _ string, in *dynamicpb.Message) (*dynamicpb.Message, error) {
					if textOf(in) == "big" {
						return payload(rpc.MaxMessage + 1), nil
					}
					return in, nil
				},
			}})
			cc := w.dial(t, "jobs", "registry")
			_, err := invoke(t.Context(), cc, "PeerOnce", payload(rpc.MaxMessage-100))
			require.NoError(t, err)
			_, err = invoke(t.Context(), cc, "PeerOnce", payload(rpc.MaxMessage+1))
			require.Equal(t, fault.TooLarge, fault.From(err).Kind)
			_, err = invoke(t.Context(), cc, "PeerOnce", pingText("big"))
			require.Equal(t, fault.TooLarge, fault.From(err).Kind)
		})
	}
}

func TestCall_largeCallerToken(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			c := person("operator")
			c.Username = strings.Repeat("x", 40<<10)
			got, err := try(w.calledBy(t, c), w.dial(t, "gateway", "registry"), "User")
			require.NoError(t, err)
			require.Equal(t, "gateway|user|usr_1", got)
		})
	}
}

// flaky fails with err until the third attempt.
func flaky(tries *atomic.Int32, err error) *handlers {
	return failing(func(context.Context) error {
		if tries.Add(1) < 3 {
			return err
		}
		return nil
	})
}

func TestClient_doesNotRetryServerErrors(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			var tries atomic.Int32
			w.serve(t, setup{service: "registry", handlers: flaky(&tries, fault.New(fault.Unavailable, "maintenance", "closed"))})
			cc := w.dial(t, "jobs", "registry")
			for _, name := range []string{"Peer", "PeerOnce"} {
				tries.Store(0)
				_, err := try(t.Context(), cc, name)
				require.True(t, fault.HasCode(err, "maintenance"))
				require.EqualValues(t, 1, tries.Load(), "%s: an error of the service is not retried", name)
			}
		})
	}
}

// bareService serves without the interceptors of this package.
func bareService(t *testing.T, w *harness, h *handlers) {
	t.Helper()
	l := listen(t, w.as(t, "registry").Listen, "registry")
	raw := grpc.NewServer(rpc.ServerCredentials())
	raw.RegisterService(h.desc(testService), h)
	done := make(chan error, 1)
	go func() { done <- raw.Serve(l) }()
	t.Cleanup(func() {
		raw.Stop()
		require.NoError(t, <-done)
	})
}

func TestClient_retriesIdempotentMethodsOnly(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	w := newHarness(t, memoryNetwork())
	// grpc reports a broken connection as Unavailable without pushback.
	bareService(t, w, flaky(&tries, status.Error(codes.Unavailable, "broken")))
	cc := w.dial(t, "jobs", "registry")
	_, err := try(t.Context(), cc, "Peer")
	require.NoError(t, err)
	require.EqualValues(t, 3, tries.Load())

	tries.Store(0)
	_, err = try(t.Context(), cc, "PeerOnce")
	require.True(t, fault.Is(err, fault.Unavailable))
	require.EqualValues(t, 1, tries.Load())
}

func TestClient_setsDefaultDeadline(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			left := make(chan time.Duration, 1)
			bareService(t, w, failing(func(ctx context.Context) error {
				at, _ := ctx.Deadline()
				left <- time.Until(at)
				return nil
			}))
			_, err := try(t.Context(), w.dial(t, "jobs", "registry"), "PeerOnce")
			require.NoError(t, err)
			requireDefault(t, <-left)
		})
	}
}

func TestClient_serviceNotListening(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			cc := w.dial(t, "jobs", "registry")
			for _, name := range []string{"Peer", "PeerOnce", "PeerStream"} {
				_, err := try(t.Context(), cc, name)
				require.True(t, fault.Is(err, fault.Unavailable), name)
				require.Equal(t, "registry is not available", fault.From(err).Text(), "the address of a service must not reach users")
				require.False(t, fault.HasCode(err, fault.CodeDeadline), "the call fails before the deadline")
			}
		})
	}
}

func TestClient_streamEndsWithEOF(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.serve(t, setup{service: "registry", handlers: echo()})
			s, err := openStream(t.Context(), w.dial(t, "jobs", "registry"), "PeerStream")
			require.NoError(t, err)
			for range 3 {
				require.NoError(t, s.SendMsg(ping()))
				require.NoError(t, s.RecvMsg(ping()))
			}
			_, err = s.Header()
			require.NoError(t, err)
			require.NoError(t, s.CloseSend())
			require.Equal(t, io.EOF, s.RecvMsg(ping()))
		})
	}
}

func TestClient_requiresClock(t *testing.T) {
	t.Parallel()
	_, err := rpc.Memory(rpc.ClientOptions{}).As("jobs").Dial("registry")
	require.ErrorContains(t, err, "must have a Clock")
}
