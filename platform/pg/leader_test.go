package pg_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// every is so long that only the fake clock reaches its end. It is also the limit of one connection check, in real
// time.
const every = time.Hour

func fake() *clock.Fake { return clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)) }

func elector(pool *pgxpool.Pool, clk clock.Clock, name string) *pg.LeaderElector {
	return &pg.LeaderElector{Pool: pool, Clock: clk, Name: name, Every: every}
}

func one(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
}

// turn advances the clock by one pause at a time until c delivers a value. n is the number of electors; each has one
// timer while it waits or leads.
func turn[T any](t *testing.T, clk *clock.Fake, n int, c <-chan T) T {
	t.Helper()
	for {
		select {
		case got := <-c:
			return got
		default:
		}
		waits, stop := context.WithCancel(t.Context())
		settled := make(chan error, 1)
		go func() { settled <- clk.Await(waits, n) }()
		select {
		case got := <-c:
			stop()
			if err := <-settled; err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			return got
		case err := <-settled:
			stop()
			require.NoError(t, err)
			clk.Advance(every)
		}
	}
}

// cutLocks terminates the connections that hold a leader's lock and returns their number.
func cutLocks(ctx context.Context, t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	tag, err := pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	require.NoError(t, err)
	return tag.RowsAffected()
}

func TestLeaderElector_Run_oneLeaderAtATime(t *testing.T) {
	t.Parallel()
	pool, clk := one(t), fake()
	var leading, most atomic.Int64
	led, ended := make(chan context.CancelFunc, 3), make(chan struct{}, 3)
	for range 3 {
		ctx, resign := context.WithCancel(t.Context())
		defer resign()
		go func() {
			_ = elector(pool, clk, "x").Run(ctx, func(ctx context.Context) error {
				most.Store(max(most.Load(), leading.Add(1)))
				led <- resign
				<-ctx.Done()
				leading.Add(-1)
				return nil
			})
			ended <- struct{}{}
		}()
	}
	for left := 3; left > 0; left-- {
		resign := turn(t, clk, left, led)
		require.NoError(t, clk.Await(t.Context(), left), "the other electors wait")
		require.Empty(t, led)
		require.EqualValues(t, 1, leading.Load())
		resign()
		<-ended
	}
	require.EqualValues(t, 1, most.Load())
}

func TestLeaderElector_Run_returnsErrorOfLeadAndReleasesName(t *testing.T) {
	t.Parallel()
	pool, clk, broken := one(t), fake(), errors.New("broken")
	again := make(chan error, 1)
	err := elector(pool, clk, "x").Run(t.Context(), func(context.Context) error { return broken })
	require.ErrorIs(t, err, broken)
	go func() { again <- elector(pool, clk, "x").Run(t.Context(), func(context.Context) error { return nil }) }()
	require.NoError(t, turn(t, clk, 1, again))
}

func TestLeaderElector_Run_panicReleasesName(t *testing.T) {
	t.Parallel()
	pool, clk := one(t), fake()
	require.PanicsWithValue(t, "boom", func() {
		_ = elector(pool, clk, "x").Run(t.Context(), func(context.Context) error { panic("boom") })
	})
	again := make(chan error, 1)
	go func() { again <- elector(pool, clk, "x").Run(t.Context(), func(context.Context) error { return nil }) }()
	require.NoError(t, turn(t, clk, 1, again))
}

func TestLeaderElector_Run_leaderPerNameAndSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"}, pgtest.Schema{Name: "registry"})
	nothing := func(context.Context) error { return nil }
	err := elector(db.Pool("jobs"), fake(), "x").Run(t.Context(), func(ctx context.Context) error {
		require.NoError(t, elector(db.Pool("jobs"), fake(), "y").Run(ctx, nothing), "a leader of another name does not block the election")
		require.NoError(t, elector(db.Pool("registry"), fake(), "x").Run(ctx, nothing), "a leader in another schema does not block the election")
		return nil
	})
	require.NoError(t, err)
}

func TestLeaderElector_Run_brokenConnectionEndsLeadership(t *testing.T) {
	t.Parallel()
	pool, clk := one(t), fake()
	leads, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- elector(pool, clk, "x").Run(t.Context(), func(ctx context.Context) error {
			leads <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	turn(t, clk, 1, leads)
	require.EqualValues(t, 1, cutLocks(t.Context(), t, pool))
	require.ErrorContains(t, turn(t, clk, 1, ended), "lost the lock of x")
	go func() { ended <- elector(pool, clk, "x").Run(t.Context(), func(context.Context) error { return nil }) }()
	require.NoError(t, turn(t, clk, 1, ended))
}

func TestLeaderElector_Run_healthyConnectionKeepsLeadership(t *testing.T) {
	t.Parallel()
	pool, clk := one(t), fake()
	err := elector(pool, clk, "x").Run(t.Context(), func(ctx context.Context) error {
		for range 5 {
			require.NoError(t, clk.Await(ctx, 1), "the connection check is done")
			clk.Advance(every)
		}
		require.NoError(t, clk.Await(ctx, 1))
		return ctx.Err()
	})
	require.NoError(t, err)
}

// Which error pgx wraps depends on the moment at which the context ends. The test therefore checks the error of the
// context.
func TestLeaderElector_Run_waitEndsWithContext(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"cancelled": context.Canceled, "deadline exceeded": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := one(t)
			err := elector(pool, fake(), "x").Run(t.Context(), func(ctx context.Context) error {
				clk := fake()
				waiting := newEnding(ctx)
				ended := make(chan error, 1)
				go func() {
					ended <- elector(pool, clk, "x").Run(waiting, func(context.Context) error {
						t.Error("two leaders at once")
						return nil
					})
				}()
				require.NoError(t, clk.Await(ctx, 1), "the second elector waits")
				waiting.end(end)
				require.Error(t, <-ended)
				require.ErrorIs(t, waiting.Err(), end)
				require.ErrorIs(t, clk.Await(cancelled(ctx), 1), context.Canceled, "no timer is left")
				return nil
			})
			require.NoError(t, err)
		})
	}
}

func TestLeaderElector_Run_connectionErrorHasName(t *testing.T) {
	t.Parallel()
	pool := one(t)
	pool.Close()
	err := elector(pool, fake(), "x").Run(t.Context(), func(context.Context) error {
		t.Error("lead was called without a lock")
		return nil
	})
	require.ErrorContains(t, err, "become the leader of x")
}

func TestLeaderElector_Run_usesNoPoolConnection(t *testing.T) {
	t.Parallel()
	pool := one(t)
	err := elector(pool, fake(), "x").Run(t.Context(), func(context.Context) error {
		require.Zero(t, pool.Stat().AcquiredConns())
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, pool.Stat().TotalConns(), "the connection of the lock is not returned to the pool")
}

func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
