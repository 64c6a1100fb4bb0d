package bgjob_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestDeleteBefore_finishedJobsOnly(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "auth"}).Pool("auth")
	now := time.Now()
	_, err := pool.Exec(t.Context(), `INSERT INTO river_job (args, kind, max_attempts, state, finalized_at, attempt)
		SELECT '{}', s, 3, s::river_job_state, f, 1 FROM (VALUES ('completed', $1::timestamptz), ('cancelled', $1), ('discarded', $1),
			('completed', $2), ('available', NULL), ('retryable', NULL)) v (s, f)`, now.Add(-2*time.Hour), now)
	require.NoError(t, err)
	for _, want := range []int64{2, 1, 0} {
		n, err := bgjob.DeleteBefore(t.Context(), pool, now.Add(-time.Hour), 2)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	var left []string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT array_agg(kind ORDER BY kind) FROM river_job`).Scan(&left))
	require.Equal(t, []string{"available", "completed", "retryable"}, left)
}

func TestDeleteBefore_usesIndexOfLargeTable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "auth"})
	pool := db.Pool("auth")
	_, err := pool.Exec(t.Context(), `INSERT INTO river_job (args, kind, max_attempts, state, finalized_at, attempt)
		SELECT '{}', 'k', 3, 'completed', now() - n * interval '1 second', 1 FROM generate_series(1, 200000) n`)
	require.NoError(t, err)
	_, err = db.OwnerPool("auth").Exec(t.Context(), `ANALYZE river_job`)
	require.NoError(t, err)
	plan := pgtest.Explain(t, pool, func(q pg.Querier) error {
		_, err := bgjob.DeleteBefore(t.Context(), q, time.Now().Add(-24*time.Hour), 1000)
		return err
	})
	require.NotContains(t, plan, "Seq Scan on river_job")
}
