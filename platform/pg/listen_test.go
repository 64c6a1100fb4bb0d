package pg_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// listening is a call of Listen that is running and has already called began.
type listening struct {
	cancel context.CancelFunc
	heard  chan string
	ended  chan error
	begun  int
}

func listen(t *testing.T, pool *pgxpool.Pool, channel string) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listening{cancel: cancel, heard: make(chan string, 100), ended: make(chan error, 1)}
	began := make(chan struct{})
	go func() {
		l.ended <- pg.Listen(ctx, pool, channel, func() { l.begun++; close(began) }, func(payload string) { l.heard <- payload })
	}()
	select {
	case <-began:
	case err := <-l.ended:
		require.NoError(t, err, "Listen must not return before it has called began")
	}
	return l
}

func notify(t *testing.T, pool *pgxpool.Pool, channel, payload string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `SELECT pg_notify($1, $2)`, channel, payload)
	require.NoError(t, err)
}

func TestListen_missesNoNotification(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	l := listen(t, pool, "news")
	for n := range 50 {
		notify(t, pool, "news", fmt.Sprint(n))
		notify(t, pool, "other", "for another channel")
	}
	for n := range 50 {
		require.Equal(t, fmt.Sprint(n), <-l.heard)
	}
	l.cancel()
	require.ErrorIs(t, <-l.ended, context.Canceled)
	require.Equal(t, 1, l.begun)
}

func TestListen_channelNameIsQuoted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	for _, channel := range []string{`we"ird; SELECT 1`, "Upper Case", "a.b", "ключ"} {
		l := listen(t, pool, channel)
		notify(t, pool, channel, "x")
		require.Equal(t, "x", <-l.heard, channel)
		l.cancel()
		require.ErrorIs(t, <-l.ended, context.Canceled, channel)
	}
}

// others counts the connections of this role to the test's database, except the connection that runs the query.
const others = `SELECT count(*) FROM pg_stat_activity
	WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()`

func TestListen_endsWhenConnectionIsLost(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	l := listen(t, pool, "news")
	_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'
		AND datname = current_database() AND usename = current_user`)
	require.NoError(t, err)
	require.ErrorContains(t, <-l.ended, "wait for notifications on news")
	pool.Close()
	require.ErrorContains(t, pg.Listen(t.Context(), pool, "news", nil, nil), "take a connection out of the pool")
}

func number(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

func TestDetach_leaveClosesConnection(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	ctx, cancel := context.WithCancel(t.Context())
	conn, leave, err := pg.Detach(ctx, pool)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `SET statement_timeout = '1h'; SELECT pg_advisory_lock(7)`)
	require.NoError(t, err)
	var limit string
	require.NoError(t, pool.QueryRow(t.Context(), `SHOW statement_timeout`).Scan(&limit))
	require.NotEqual(t, "1h", limit, "the pool uses other connections")
	cancel()
	leave()
	require.True(t, conn.IsClosed(), "leave works after the context is cancelled")
	for number(t, pool, others) > 0 {
		require.NoError(t, t.Context().Err())
	}
	var free bool
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT pg_try_advisory_lock(7)`).Scan(&free))
	require.True(t, free, "the locks of the connection are released")
}
