package pg_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// queueAdd returns a function that queues an addition to a counter.
func queueAdd(id, n int) func(batch *pgx.Batch) {
	return func(batch *pgx.Batch) { batch.Queue(`UPDATE counter SET n = n + $2 WHERE id = $1`, id, n) }
}

// trips counts what a connection sends.
type trips struct{ queries, batches int }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries++
	return ctx
}
func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches++
	return ctx
}
func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestInBatches_twoRoundTrips(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: counterFiles()})
	sent := &trips{}
	pool, err := pg.Open(pg.WithTracer(t.Context(), sent), pg.Config{URL: db.URL("jobs"), AllowUnsafe: true}, "jobs", quiet())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	*sent = trips{}
	require.NoError(t, pg.InBatches(t.Context(), pool, queueAdd(1, 1), func(_ context.Context, _ pgx.Tx, last *pgx.Batch) error {
		queueAdd(2, 2)(last)
		return nil
	}))
	require.Equal(t, trips{batches: 2}, *sent)
	require.Equal(t, 1, count(t, pool, 1))
	require.Equal(t, 2, count(t, pool, 2))
}

func TestInBatches_resultsOfFirstAreReadBeforeFn(t *testing.T) {
	t.Parallel()
	pool := counters(t)
	n := -1
	err := pg.InBatches(t.Context(), pool, func(batch *pgx.Batch) {
		queueAdd(1, 7)(batch)
		batch.Queue(`SELECT n FROM counter WHERE id = 1`).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	}, func(ctx context.Context, tx pgx.Tx, last *pgx.Batch) error {
		require.Equal(t, 7, n)
		require.Equal(t, 0, count(t, pool, 1), "other connections do not see the change yet")
		require.NoError(t, add(ctx, tx, 1, 1), "the transaction can be used")
		queueAdd(1, 1)(last)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 9, count(t, pool, 1))
}

func TestInBatches_retriesDeadlock(t *testing.T) {
	t.Parallel()
	pool := counters(t)
	errs := make(chan error, 2)
	var both sync.WaitGroup
	both.Add(2)
	for _, order := range [][]int{{1, 2}, {2, 1}} {
		go func() {
			tries := 0
			errs <- pg.InBatches(t.Context(), pool, queueAdd(order[0], 1), func(_ context.Context, _ pgx.Tx, last *pgx.Batch) error {
				if tries++; tries == 1 {
					both.Done()
					both.Wait() // the other transaction has locked its row too
				}
				queueAdd(order[1], 1)(last)
				return nil
			})
		}()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.Equal(t, 2, count(t, pool, 1))
	require.Equal(t, 2, count(t, pool, 2))
}

// requireNothingAdded fails if a counter has changed, or if the connection of the transaction was lost or is in use.
func requireNothingAdded(t *testing.T, pool *pgxpool.Pool, opened int64) {
	t.Helper()
	require.Equal(t, 0, count(t, pool, 1))
	require.EqualValues(t, 0, pool.Stat().AcquiredConns())
	require.Equal(t, opened, pool.Stat().NewConnsCount())
}

func TestInBatches_rollsBackOnFailure(t *testing.T) {
	t.Parallel()
	pool := counters(t)
	boom := errors.New("boom")
	opened := pool.Stat().NewConnsCount()
	nothing := func(context.Context, pgx.Tx, *pgx.Batch) error { return nil }

	err := pg.InBatches(t.Context(), pool, queueAdd(1, 1), func(context.Context, pgx.Tx, *pgx.Batch) error { return boom })
	require.ErrorIs(t, err, boom)
	requireNothingAdded(t, pool, opened)

	err = pg.InBatches(t.Context(), pool, func(batch *pgx.Batch) {
		queueAdd(1, 1)(batch)
		batch.Queue(`SELECT 1 / (id - 1) FROM counter`)
	}, nothing)
	require.ErrorContains(t, err, "begin the transaction: ERROR: division by zero")
	requireNothingAdded(t, pool, opened)

	err = pg.InBatches(t.Context(), pool, queueAdd(1, 1), func(_ context.Context, _ pgx.Tx, last *pgx.Batch) error {
		last.Queue(`SELECT 1 / (id - 1) FROM counter`)
		return nil
	})
	require.ErrorContains(t, err, "commit the transaction: ERROR: division by zero")
	requireNothingAdded(t, pool, opened)

	err = pg.InBatches(t.Context(), pool, queueAdd(1, 1), func(ctx context.Context, tx pgx.Tx, _ *pgx.Batch) error {
		_, err := tx.Exec(ctx, `SELECT 1 / (id - 1) FROM counter`)
		require.Error(t, err)
		return nil
	})
	require.ErrorIs(t, err, pgx.ErrTxCommitRollback, "an error that fn ignores")
	requireNothingAdded(t, pool, opened)

	require.PanicsWithValue(t, "boom", func() {
		_ = pg.InBatches(t.Context(), pool, queueAdd(1, 1), func(context.Context, pgx.Tx, *pgx.Batch) error { panic("boom") })
	})
	requireNothingAdded(t, pool, opened)
}

func TestInBatches_canceledContextCommitsNothing(t *testing.T) {
	t.Parallel()
	pool := counters(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := pg.InBatches(ctx, pool, queueAdd(1, 1), func(_ context.Context, _ pgx.Tx, last *pgx.Batch) error {
		cancel()
		queueAdd(1, 1)(last)
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 0, count(t, pool, 1))
	require.EqualValues(t, 0, pool.Stat().AcquiredConns())
}
