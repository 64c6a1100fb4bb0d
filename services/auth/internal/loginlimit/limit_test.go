package loginlimit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func login(t *testing.T) *Login {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	return &Login{Pool: pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth")}
}

// fill uses up all attempts of the window.
func fill(ctx context.Context, t *testing.T, l *Login, address string) {
	t.Helper()
	for range Attempts {
		require.NoError(t, l.Take(ctx, address))
	}
}

func limited(t *testing.T, err error) time.Duration {
	t.Helper()
	require.True(t, fault.Is(err, fault.Limited), "%v", err)
	return fault.From(err).RetryAfter
}

func (l *Login) rows(ctx context.Context, t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, l.Pool.QueryRow(ctx, `SELECT count(*) FROM login_attempt`).Scan(&n))
	return n
}

func TestLogin_Take_limit(t *testing.T) {
	t.Parallel()
	l := login(t)
	fill(t.Context(), t, l, "192.0.2.7")
	for range 5 {
		wait := limited(t, l.Take(t.Context(), "192.0.2.7"))
		require.Greater(t, wait, time.Second)
		require.LessOrEqual(t, wait, Window)
	}
	require.Equal(t, Attempts, l.rows(t.Context(), t), "a refused attempt adds no row")
	require.NoError(t, l.Take(t.Context(), "192.0.2.8"), "other addresses are not limited")
}

func TestLogin_Take_refusalWaitsForNoLock(t *testing.T) {
	t.Parallel()
	l := login(t)
	fill(t.Context(), t, l, "192.0.2.7")
	tx, err := l.Pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('login:192.0.2.7', 0))`)
	require.NoError(t, err) // as if another attempt of the address were being counted
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	limited(t, l.Take(ctx, "192.0.2.7"))
}

func TestLogin_Take_addressesOfOneHost(t *testing.T) {
	t.Parallel()
	l := login(t)
	for n := range Attempts {
		require.NoError(t, l.Take(t.Context(), fmt.Sprintf("2001:db8:1:2::%x", n)))
	}
	limited(t, l.Take(t.Context(), "2001:db8:1:2:9999::1"))
	require.NoError(t, l.Take(t.Context(), "2001:db8:1:3::1"))
	fill(t.Context(), t, l, "::ffff:192.0.2.7")
	limited(t, l.Take(t.Context(), "192.0.2.7"))
}

func TestLogin_Take_slidingWindow(t *testing.T) {
	t.Parallel()
	l := login(t)
	require.NoError(t, l.Take(t.Context(), "192.0.2.7"))
	half := pg.WithOffset(t.Context(), Window/2)
	for range Attempts - 1 {
		require.NoError(t, l.Take(half, "192.0.2.7"))
	}
	wait := limited(t, l.Take(half, "192.0.2.7"))
	require.LessOrEqual(t, wait, Window/2, "the first attempt leaves the window first")
	past := pg.WithOffset(t.Context(), Window+time.Second)
	require.NoError(t, l.Take(past, "192.0.2.7"), "one attempt has left the window")
	limited(t, l.Take(past, "192.0.2.7"))
	fill(pg.WithOffset(t.Context(), 3*Window), t, l, "192.0.2.7")
}

func TestLogin_Take_concurrentReplicas(t *testing.T) {
	t.Parallel()
	l := login(t)
	replicas := []*Login{l, {Pool: l.Pool}, {Pool: l.Pool}}
	var passed atomic.Int64
	var wg sync.WaitGroup
	for n := range 60 {
		wg.Go(func() {
			if replicas[n%len(replicas)].Take(t.Context(), "192.0.2.7") == nil {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, Attempts, passed.Load())
}

func TestLogin_Take_manyOtherAddresses(t *testing.T) {
	t.Parallel()
	l := login(t)
	fill(t.Context(), t, l, "192.0.2.7")
	_, err := l.Pool.Exec(t.Context(), `
		INSERT INTO login_attempt (address, at) SELECT 'flood' || n, clock_timestamp() FROM generate_series(1, 100000) n`)
	require.NoError(t, err)
	require.NoError(t, l.Sweep(t.Context()))
	limited(t, l.Take(t.Context(), "192.0.2.7"))
}

func TestLogin_Sweep(t *testing.T) {
	t.Parallel()
	l := login(t)
	fill(t.Context(), t, l, "192.0.2.7")
	require.NoError(t, l.Sweep(pg.WithOffset(t.Context(), Window)))
	require.Equal(t, Attempts, l.rows(t.Context(), t))
	require.NoError(t, l.Sweep(pg.WithOffset(t.Context(), 2*Window+time.Second)))
	require.Zero(t, l.rows(t.Context(), t))
}

func TestLogin_Take_canceled(t *testing.T) {
	t.Parallel()
	l := login(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, l.Take(ctx, "192.0.2.7"))
	require.Zero(t, l.rows(t.Context(), t))
}
