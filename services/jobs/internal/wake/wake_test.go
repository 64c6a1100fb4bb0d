package wake_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/wake"
)

func woken(t *testing.T, w *wake.Waiter) {
	t.Helper()
	select {
	case <-w.C:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "nobody woke it")
	}
}

func TestTheHubWakesTheTopicsThatAreWaitedFor(t *testing.T) {
	t.Parallel()
	hub := wake.NewHub()
	job, both := hub.Wait(wake.Job("a")), hub.Wait(wake.Job("a"), wake.Queue)
	hub.Wake(wake.Job("b"))
	require.Empty(t, job.C)
	for range 3 {
		hub.Wake(wake.Job("a"))
	}
	require.Len(t, job.C, 1, "wake-ups that come together are one")
	require.Len(t, both.C, 1)
	<-job.C
	<-both.C
	hub.Wake(wake.Queue)
	require.Empty(t, job.C)
	require.Len(t, both.C, 1)
	job.Close()
	hub.Wake(wake.All)
	require.Empty(t, job.C)
	both.Close()
}

func TestWakeUpsCrossProcessesWhenTheyCommit(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	hub := wake.NewHub()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	waiter := hub.Wait(wake.Job("a"))
	go func() { done <- hub.Listen(ctx, pool) }()
	woken(t, waiter) // the start wakes everyone: something may have been missed
	rollback := context.Canceled
	err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := wake.Notify(ctx, tx, wake.Job("a")); err != nil {
			return err
		}
		return rollback
	})
	require.ErrorIs(t, err, rollback)
	other := hub.Wait(wake.Job("b"))
	require.NoError(t, wake.Notify(t.Context(), pool, wake.Job("b")))
	woken(t, other)
	require.Empty(t, waiter.C, "what was rolled back woke nobody")
	require.NoError(t, wake.Notify(t.Context(), pool, wake.Job("a")))
	woken(t, waiter)
	cancel()
	require.Error(t, <-done)
}

func TestAListenerThatLostItsConnectionSaysSo(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	pool := db.Pool("jobs")
	hub := wake.NewHub()
	waiter := hub.Wait(wake.Queue)
	done := make(chan error, 1)
	go func() { done <- hub.Listen(t.Context(), pool) }()
	woken(t, waiter)
	_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE query LIKE 'LISTEN%' AND datname = current_database() AND usename = current_user`)
	require.NoError(t, err)
	select {
	case err := <-done:
		require.Error(t, err)
	case <-time.After(10 * time.Second):
		require.FailNow(t, "it listens to nobody")
	}
}
