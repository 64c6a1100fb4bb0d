package pg_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// woken waits until all waiters are woken.
func woken(t *testing.T, waiters ...*pg.Waiter) {
	t.Helper()
	for _, w := range waiters {
		select {
		case <-w.C:
		case <-t.Context().Done():
			require.FailNow(t, "the waiter was not woken")
		}
	}
}

// wakeListen starts the listener of the hub and waits until it receives all wake-ups.
func wakeListen(t *testing.T, h *pg.NotifyHub, pool *pgxpool.Pool) (cancel context.CancelFunc, ended <-chan error) {
	t.Helper()
	began := h.Wait()
	defer began.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Listen(ctx, pool) }()
	woken(t, began)
	return cancel, done
}

func TestNotifyHub_Wake_topics(t *testing.T) {
	t.Parallel()
	hub := pg.NewNotifyHub()
	job, both := hub.Wait("job:a"), hub.Wait("job:a", "queue")
	hub.Wake("job:b")
	require.Empty(t, job.C)
	for range 3 {
		hub.Wake("job:a")
	}
	require.Len(t, job.C, 1, "pending wake-ups are merged")
	require.Len(t, both.C, 1)
	<-job.C
	<-both.C
	hub.Wake("queue")
	require.Empty(t, job.C)
	require.Len(t, both.C, 1)
	<-both.C
	hub.Wake(pg.AllTopics)
	require.Len(t, job.C, 1)
	require.Len(t, both.C, 1)
}

func TestWaiter_Close_stopsWakeUps(t *testing.T) {
	t.Parallel()
	hub := pg.NewNotifyHub()
	gone, here := hub.Wait("queue"), hub.Wait("queue")
	gone.Close()
	gone.Close()
	hub.Wake("queue")
	hub.Wake(pg.AllTopics)
	require.Empty(t, gone.C)
	require.Len(t, here.C, 1)
}

func TestNotifyHub_Wake_idleWaiterDoesNotBlock(t *testing.T) {
	t.Parallel()
	hub := pg.NewNotifyHub()
	idle, busy := hub.Wait("queue"), hub.Wait("queue")
	for range 100 {
		hub.Wake("queue")
		<-busy.C
	}
	require.Len(t, idle.C, 1)
}

func TestNotify_commitWakesAllReplicas(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	one, two := pg.NewNotifyHub(), pg.NewNotifyHub()
	wakeListen(t, one, pool)
	wakeListen(t, two, pool)
	waiters := []*pg.Waiter{one.Wait("job:a"), two.Wait("job:a")}
	err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := pg.Notify(ctx, tx, "job:a"); err != nil {
			return err
		}
		// A wake-up from another connection arrives now, but the wake-up from this transaction does not.
		between := one.Wait("job:b")
		require.NoError(t, pg.Notify(ctx, pool, "job:b"))
		woken(t, between)
		require.Empty(t, waiters[0].C, "the waiter is not woken before the commit")
		return nil
	})
	require.NoError(t, err)
	woken(t, waiters...)
}

func TestNotify_rollbackDoesNotWake(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	hub, rollback := pg.NewNotifyHub(), errors.New("no")
	wakeListen(t, hub, pool)
	dropped, after := hub.Wait("job:a"), hub.Wait("job:b")
	err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(pg.Notify(ctx, tx, "job:a"), rollback)
	})
	require.ErrorIs(t, err, rollback)
	require.NoError(t, pg.Notify(t.Context(), pool, "job:b"))
	woken(t, after)
	require.Empty(t, dropped.C)
}

func TestNotify_otherServiceIsNotWoken(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"}, pgtest.Schema{Name: "registry"})
	jobs, registry := pg.NewNotifyHub(), pg.NewNotifyHub()
	wakeListen(t, jobs, db.Pool("jobs"))
	wakeListen(t, registry, db.Pool("registry"))
	theirs, ours, last := registry.Wait("queue"), jobs.Wait("queue"), registry.Wait("last")
	require.NoError(t, pg.Notify(t.Context(), db.Pool("jobs"), "queue"))
	woken(t, ours)
	require.NoError(t, pg.Notify(t.Context(), db.Pool("registry"), "last"))
	woken(t, last)
	require.Empty(t, theirs.C)
}

func TestNotifyHub_Listen_endsWithContext(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	cancel, ended := wakeListen(t, pg.NewNotifyHub(), pool)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestNotifyHub_Listen_wakesAllAfterLostConnection(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	hub := pg.NewNotifyHub()
	_, ended := wakeListen(t, hub, pool)
	tag, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE query LIKE 'LISTEN%' AND datname = current_database() AND usename = current_user`)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	require.ErrorContains(t, <-ended, "wait for notifications")
	missed := hub.Wait("job:a")
	require.NoError(t, pg.Notify(t.Context(), pool, "job:a"))
	wakeListen(t, hub, pool)
	woken(t, missed)
}

func TestNotifyAndListen_connectionErrors(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	require.ErrorContains(t, pg.Notify(t.Context(), pool, pg.Topic(strings.Repeat("x", 8000))), "notify the waiters of xxx")
	pool.Close()
	require.ErrorContains(t, pg.NewNotifyHub().Listen(t.Context(), pool), "get the name of the wake-up channel")
	require.ErrorContains(t, pg.Notify(t.Context(), pool, "job:a"), "notify the waiters of job:a")
}
