package once_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/idem"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/once"
)

type bench struct {
	pool *pgxpool.Pool
	once *once.Once
	made atomic.Int64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	return &bench{pool: pool, once: &once.Once{Pool: pool, Keys: idem.New(clock.Real())}}
}

func as(ctx context.Context, user, key string) context.Context {
	ctx = authn.NewContext(ctx, &authn.Caller{Kind: authn.KindUser, Subject: user})
	if key == "" {
		return ctx
	}
	return metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
}

func body(runID string) proto.Message { return &jobsv1.GetRunRequest{RunId: runID} }

// do creates a run whose name tells how many were created before it.
func (b *bench) do(ctx context.Context, method, runID string) (*jobsv1.Run, error) {
	answer := &jobsv1.Run{}
	err := b.once.Do(ctx, method, body(runID), answer, func(context.Context, pgx.Tx) error {
		once.Set(answer, &jobsv1.Run{Id: runID, Attempts: int32(b.made.Add(1))})
		return nil
	})
	return answer, err
}

func TestWhatIsARepeat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		user, key, method, run string
		repeat, conflict       bool
	}{
		"the same request": {"usr_1", "k", "/a", "r", true, false},
		"another body":     {"usr_1", "k", "/a", "x", false, true},
		"another key":      {"usr_1", "l", "/a", "r", false, false},
		"another method":   {"usr_1", "k", "/b", "r", false, false},
		"another user":     {"usr_2", "k", "/a", "r", false, false},
		"no key":           {"usr_1", "", "/a", "r", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ctx := as(t.Context(), c.user, c.key)
			first, err := b.do(as(t.Context(), "usr_1", "k"), "/a", "r")
			require.NoError(t, err)
			require.EqualValues(t, 1, first.GetAttempts())

			looked := &jobsv1.Run{}
			replayed, err := b.once.Replay(ctx, c.method, body(c.run), looked)
			require.Equal(t, c.repeat, replayed)
			require.Equal(t, c.conflict, fault.HasCode(err, idem.CodeKey), "%v", err)
			require.Equal(t, c.repeat, proto.Equal(first, looked))

			got, err := b.do(ctx, c.method, c.run)
			require.Equal(t, c.conflict, fault.HasCode(err, idem.CodeKey), "%v", err)
			require.Equal(t, c.repeat, proto.Equal(first, got))
			want := 2
			if c.repeat || c.conflict {
				want = 1
			}
			require.EqualValues(t, want, b.made.Load())
		})
	}
}

func TestALookLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := as(t.Context(), "usr_1", "k")
	for range 2 {
		replayed, err := b.once.Replay(ctx, "/a", body("r"), &jobsv1.Run{})
		require.NoError(t, err)
		require.False(t, replayed)
	}
	got, err := b.do(ctx, "/a", "another body than the look's")
	require.NoError(t, err)
	require.EqualValues(t, 1, got.GetAttempts())
}

func TestACreationThatFailedMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, boom := as(t.Context(), "usr_1", "k"), errors.New("boom")
	err := b.once.Do(ctx, "/a", body("r"), &jobsv1.Run{}, func(context.Context, pgx.Tx) error { return boom })
	require.ErrorIs(t, err, boom)
	got, err := b.do(ctx, "/a", "r")
	require.NoError(t, err)
	require.EqualValues(t, 1, got.GetAttempts())
}

func TestManyAtOnceCreateOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := b.do(as(t.Context(), "usr_1", "k"), "/a", "r")
			if err != nil || got.GetAttempts() != 1 {
				t.Error(got, err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, b.made.Load())
}

func TestAnEmptyAnswerIsKeptToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := as(t.Context(), "usr_1", "k")
	for range 2 {
		require.NoError(t, b.once.Do(ctx, "/a", body("r"), &jobsv1.Run{}, func(context.Context, pgx.Tx) error {
			b.made.Add(1)
			return nil
		}))
	}
	require.EqualValues(t, 1, b.made.Load())
}

func TestSetForgetsWhatTheAnswerHeld(t *testing.T) {
	t.Parallel()
	dst, src := &jobsv1.Run{Id: "old", Name: "old"}, &jobsv1.Run{Id: "new"}
	once.Set(dst, src)
	require.True(t, proto.Equal(src, dst))
}
