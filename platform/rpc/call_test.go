package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// failing returns handlers that end every call, unary or stream, with the error of f.
func failing(f func(ctx context.Context) error) *handlers {
	return &handlers{
		unary: func(ctx context.Context, _ string, _ *dynamicpb.Message) (*dynamicpb.Message, error) {
			return ping(), f(ctx)
		},
		stream: func(_ string, s grpc.ServerStream) error { return f(s.Context()) },
	}
}

// bothForms returns the name of a unary method and the name of a stream. Both must behave in the same way.
func bothForms() []string { return []string{"PeerOnce", "PeerStream"} }

func TestFault_crossesTwoHops(t *testing.T) {
	t.Parallel()
	sent := fault.InvalidFields(fault.Field{
		Loc: []any{"spec", "pools", 2}, Msg: "too small", Type: fault.TypeGreaterThanEqual,
	}).WithCode("schema").WithRetryAfter(1500 * time.Millisecond)
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			last := w.serve(t, setup{service: "registry", handlers: failing(func(context.Context) error {
				return fmt.Errorf("select from secret_table: %w", sent.Wrap(errors.New("10.0.0.7")))
			})})
			onward := w.dial(t, "jobs", "registry")
			w.serve(t, setup{service: "jobs", handlers: &handlers{
				unary: func(ctx context.Context, name string, in *dynamicpb.Message) (*dynamicpb.Message, error) {
					if _, err := invoke(ctx, onward, name, in); err != nil {
						return nil, fmt.Errorf("call registry: %w", err)
					}
					return in, nil
				},
				stream: func(name string, s grpc.ServerStream) error {
					if _, err := try(s.Context(), onward, name); err != nil {
						return fmt.Errorf("call registry: %w", err)
					}
					return nil
				},
			}})
			first := w.dial(t, "gateway", "jobs")
			for _, name := range bothForms() {
				_, err := try(t.Context(), first, name)
				var got *fault.Error
				require.ErrorAs(t, err, &got, name)
				require.Empty(t, cmp.Diff(sent, got, cmpopts.IgnoreUnexported(fault.Error{})), name)
				require.NotContains(t, err.Error(), "secret_table")
				require.NotContains(t, err.Error(), "10.0.0.7")
			}
			require.Contains(t, last.logs.text(), "secret_table", "the log has the whole error chain")
			require.Contains(t, last.logs.text(), "10.0.0.7")
		})
	}
}

func TestFault_everyKindArrives(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			kinds := make(chan fault.Kind, 1)
			w.serve(t, setup{service: "registry", handlers: failing(func(context.Context) error {
				return fault.New(<-kinds, "c", "a sentence")
			})})
			cc := w.dial(t, "jobs", "registry")
			for _, kind := range fault.Kinds() {
				for _, name := range bothForms() {
					kinds <- kind
					_, err := try(t.Context(), cc, name)
					require.Equal(t, kind, fault.From(err).Kind, name)
					require.Equal(t, "c", fault.From(err).Code)
				}
			}
		})
	}
}

func TestServer_untypedErrorIsHiddenAndLoggedOnce(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			r := w.serve(t, setup{service: "registry", handlers: failing(func(context.Context) error {
				return errors.New("password=hunter2")
			})})
			cc := w.dial(t, "jobs", "registry")
			for _, name := range bothForms() {
				_, err := try(t.Context(), cc, name)
				require.Equal(t, codes.Internal, status.Code(err))
				require.NotContains(t, err.Error(), "hunter2")
			}
			require.NoError(t, r.stop())
			lines := r.logs.lines(t)
			require.Len(t, lines, 2)
			for _, line := range lines {
				require.Equal(t, "ERROR", line["level"])
				require.Equal(t, "password=hunter2", line["error"])
				require.Equal(t, "internal", line["kind"])
			}
		})
	}
}

func TestServer_classifiesUntypedErrorsOnly(t *testing.T) {
	t.Parallel()
	errTaken := errors.New("23505")
	classify := func(err error) error {
		if errors.Is(err, errTaken) {
			return fault.New(fault.Conflict, "taken", "it exists").Wrap(err)
		}
		return err
	}
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			results := make(chan error, 1)
			w.serve(t, setup{
				service: "registry", handlers: failing(func(context.Context) error { return <-results }),
				change: func(o *rpc.ServerOptions) { o.Classify = classify },
			})
			cc := w.dial(t, "jobs", "registry")
			for _, c := range []struct {
				err  error
				kind fault.Kind
			}{
				{fmt.Errorf("insert: %w", errTaken), fault.Conflict},
				{errors.New("other"), fault.Internal},
				{fault.New(fault.Absent, "", "gone").Wrap(errTaken), fault.Absent},
			} {
				results <- c.err
				_, err := try(t.Context(), cc, "PeerOnce")
				require.Equal(t, c.kind, fault.From(err).Kind)
			}
		})
	}
}

func TestServer_panicIsInternalAndLoggedWithStack(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			r := w.serve(t, setup{service: "registry", handlers: failing(func(context.Context) error { panic("kaboom") })})
			cc := w.dial(t, "jobs", "registry")
			for _, name := range bothForms() {
				_, err := try(t.Context(), cc, name)
				require.Equal(t, fault.Internal, fault.From(err).Kind)
				require.NotContains(t, err.Error(), "kaboom")
			}
			require.NoError(t, r.stop())
			lines := r.logs.lines(t)
			require.Len(t, lines, 2, "one line per call, with the stack")
			for _, line := range lines {
				require.Contains(t, line["error"], "kaboom")
				require.Contains(t, line["stack"], "call_test.go")
			}
		})
	}
}

// requireDefault checks that the time left in the handler is positive and at most the default deadline, with a
// tolerance of a second.
func requireDefault(t *testing.T, left time.Duration) {
	t.Helper()
	require.Positive(t, left)
	require.LessOrEqual(t, left, rpc.DefaultDeadline+time.Second)
}

func TestCall_deadlines(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			left := make(chan time.Duration, 8)
			w.serve(t, setup{service: "registry", handlers: failing(func(ctx context.Context) error {
				at, ok := ctx.Deadline()
				if !ok {
					left <- 0
					return nil
				}
				left <- time.Until(at)
				if time.Until(at) < time.Second {
					<-ctx.Done()
					return ctx.Err()
				}
				return fault.New(fault.Absent, "", "x")
			})})
			cc := w.dial(t, "jobs", "registry")
			_, err := try(t.Context(), cc, "PeerOnce")
			require.Equal(t, fault.Absent, fault.From(err).Kind)
			requireDefault(t, <-left)

			_, err = try(t.Context(), cc, "PeerStream")
			require.Error(t, err)
			require.Zero(t, <-left, "a stream has no default deadline")

			for _, name := range bothForms() {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				_, err = try(ctx, cc, name)
				require.ErrorIs(t, err, context.DeadlineExceeded, name)
				require.Equal(t, codes.DeadlineExceeded, status.Code(err), name)
				require.Equal(t, fault.Unavailable, fault.From(err).Kind)
				cancel()
				select {
				case <-left: // empty if the deadline passed before the handler was called
				default:
				}
			}
		})
	}
}

func TestCall_cancelReachesHandler(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			entered, ended := make(chan struct{}), make(chan error, 1)
			r := w.serve(t, setup{service: "registry", handlers: failing(func(ctx context.Context) error {
				entered <- struct{}{}
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			})})
			cc := w.dial(t, "jobs", "registry")
			for _, name := range bothForms() {
				ctx, cancel := context.WithCancel(t.Context())
				got := make(chan error, 1)
				go func() { _, err := try(ctx, cc, name); got <- err }()
				<-entered
				cancel()
				require.ErrorIs(t, <-got, context.Canceled)
				require.ErrorIs(t, <-ended, context.Canceled)
			}
			require.NoError(t, r.stop())
			for _, line := range r.logs.lines(t) {
				require.Equal(t, "INFO", line["level"], "a cancelled call is not logged as an error")
			}
		})
	}
}

func TestServer_oneLogLinePerCall(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			r := w.serve(t, setup{service: "registry", handlers: echo()})
			cc := w.dial(t, "gateway", "registry")
			_, err := try(w.calledBy(t, person("operator")), cc, "User")
			require.NoError(t, err)
			_, err = try(w.calledBy(t, person("operator")), cc, "Admin")
			require.Error(t, err)
			_, err = try(t.Context(), cc, "PeerStream")
			require.NoError(t, err)
			require.NoError(t, r.stop())
			lines := r.logs.lines(t)
			require.Len(t, lines, 3)
			require.Equal(t, "DEBUG", lines[0]["level"])
			require.Equal(t, "/"+testService+"/User", lines[0]["method"])
			require.Equal(t, "gateway", lines[0]["peer"])
			require.Equal(t, "usr_1", lines[0]["caller"])
			require.NotContains(t, lines[0], "error")
			require.Equal(t, "INFO", lines[1]["level"])
			require.Equal(t, "forbidden", lines[1]["kind"])
			require.Equal(t, "usr_1", lines[1]["caller"], "the log line has the id of the rejected caller")
			require.Equal(t, "DEBUG", lines[2]["level"])
		})
	}
}

func TestCall_requestID(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			seen := make(chan string, 1)
			w.serve(t, setup{service: "registry", handlers: failing(func(ctx context.Context) error {
				seen <- obs.RequestID(ctx)
				return nil
			})})
			cc := w.dial(t, "jobs", "registry")
			call := func(id string) string {
				for _, name := range bothForms() {
					_, _ = try(obs.WithRequestID(t.Context(), id), cc, name)
					if got := <-seen; name == "PeerStream" {
						return got
					}
				}
				return ""
			}
			require.Equal(t, "req_01ABC.x-y", call("req_01ABC.x-y"))
			require.Equal(t, "req_made", call(""))
			require.Equal(t, "req_made", call(strings.Repeat("x", 129)))
			require.Equal(t, "req_made", call("a b"))

			passed := metadata.AppendToOutgoingContext(obs.WithRequestID(t.Context(), "req_own"), "x-request-id", "req_other")
			_, _ = try(passed, cc, "PeerOnce")
			require.Equal(t, "req_own", <-seen)

			passed = metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "req_other")
			_, _ = try(passed, cc, "PeerOnce")
			require.Equal(t, "req_made", <-seen, "the id comes from the context only")
		})
	}
}
