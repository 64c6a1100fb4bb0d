package pg_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// counters returns a schema with two counter rows.
func counters(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: counterFiles()}).Pool("jobs")
}

func counterFiles() fstest.MapFS {
	return fstest.MapFS{"00001_counter.sql": &fstest.MapFile{Data: []byte(`-- +goose Up
CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO counter VALUES (1, 0), (2, 0);
`)}}
}

func count(t *testing.T, pool *pgxpool.Pool, id int) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT n FROM counter WHERE id = $1`, id).Scan(&n))
	return n
}

func add(ctx context.Context, q pg.Querier, id, n int) error {
	_, err := q.Exec(ctx, `UPDATE counter SET n = n + $2 WHERE id = $1`, id, n)
	return err
}

func TestInTxWith_retriesConflicts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		losses, tries, n int
		fails            bool
	}{
		"no conflict":       {0, 1, 1, false},
		"one conflict":      {1, 2, 101, false},
		"three conflicts":   {3, 4, 301, false},
		"conflicts forever": {99, 4, 400, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := counters(t)
			tries := 0
			err := pg.InTxWith(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(ctx context.Context, tx pgx.Tx) error {
				tries++
				var n int
				if err := tx.QueryRow(ctx, `SELECT n FROM counter WHERE id = 1`).Scan(&n); err != nil {
					return err
				}
				if tries <= tc.losses { // another transaction commits after our snapshot
					if err := add(ctx, pool, 1, 100); err != nil {
						return err
					}
				}
				return add(ctx, tx, 1, 1)
			})
			require.Equal(t, tc.fails, pg.IsRetryable(err), "%v", err)
			require.Equal(t, tc.fails, err != nil)
			require.Equal(t, tc.tries, tries)
			require.Equal(t, tc.n, count(t, pool, 1))
		})
	}
}

// Postgres aborts one of two transactions that wait for each other; both must succeed in the end.
func TestInTx_retriesDeadlock(t *testing.T) {
	t.Parallel()
	pool := counters(t)
	var both sync.WaitGroup
	both.Add(2)
	errs := make(chan error, 2)
	for _, order := range [][]int{{1, 2}, {2, 1}} {
		go func() {
			first := true
			errs <- pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
				if err := add(ctx, tx, order[0], 1); err != nil {
					return err
				}
				if first {
					first = false
					both.Done()
					both.Wait() // the other transaction has locked its row too
				}
				return add(ctx, tx, order[1], 1)
			})
		}()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.Equal(t, 2, count(t, pool, 1))
	require.Equal(t, 2, count(t, pool, 2))
}

func TestInTx_rollsBackOnFailure(t *testing.T) {
	t.Parallel()
	pool := counters(t)
	boom := errors.New("boom")
	tries := 0
	err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		tries++
		return errors.Join(add(ctx, tx, 1, 1), boom)
	})
	require.ErrorIs(t, err, boom)
	require.Equal(t, 1, tries, "only conflicts are retried")

	require.PanicsWithValue(t, "boom", func() {
		_ = pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			require.NoError(t, add(ctx, tx, 1, 1))
			panic("boom")
		})
	})

	ctx, cancel := context.WithCancel(t.Context())
	err = pg.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		defer cancel()
		return add(ctx, tx, 1, 1)
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 0, count(t, pool, 1))
	require.EqualValues(t, 0, pool.Stat().AcquiredConns())
}

func TestNow_advancesWithinTransactionAndByOffset(t *testing.T) {
	t.Parallel()
	pool := counters(t)
	err := pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		first, err := pg.Now(ctx, tx)
		require.NoError(t, err)
		second, err := pg.Now(ctx, tx)
		require.NoError(t, err)
		require.True(t, second.After(first))
		ahead, err := pg.Now(pg.WithOffset(ctx, time.Hour), tx)
		require.NoError(t, err)
		require.WithinDuration(t, second.Add(time.Hour), ahead, time.Minute)
		require.Equal(t, time.UTC, ahead.Location())
		return nil
	})
	require.NoError(t, err)
}
