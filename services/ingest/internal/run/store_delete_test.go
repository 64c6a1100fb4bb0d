package run_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// A deleted run is hidden at once, and in the end no table has a row of it. Other runs keep theirs.
func TestExpiry_ClearDeleted_leavesNothing(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err, sql)
	}
	inserts := bulk()
	inserts["hparam"] = `(run_id, key, value, attempt, updated_at) VALUES ($1, $2::int::text::bytea, '1', 1, now())`
	inserts["validation_round"] = `(run_id, attempt, step, total_chunks, created_at) VALUES ($1, 1, $2, 1, now())`
	inserts["attempt_step"] = `(run_id, attempt, low_step) VALUES ($1, $2, 1)`
	inserts["rank_hparam"] = `(run_id, rank, key, value, attempt, updated_at) VALUES ($1, 1, $2::int::text::bytea, '1', 1, now())`
	inserts["rank_validation_round"] = `(run_id, attempt, rank, step, total_chunks, created_at) VALUES ($1, 1, 1, $2, 1, now())`
	inserts["metric_hot"] = `(run_id, due) SELECT $1, now() WHERE $2 = 0`
	for _, id := range []string{"gone", "kept"} {
		exec(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, closed_at) VALUES ($1, 'job_' || $1, 'u', 'p', 'p', 'team', now(), now())`, id)
		exec(`INSERT INTO benchmark_score (run_id, id, attempt, name, metric, value, created_at) VALUES ($1, 'b', 1, 'n', 'm', 1, now())`, id)
		exec(`INSERT INTO evaluation (run_id, name, head, started_at) VALUES ($1, 'n', '{}', now())`, id)
		for table, sql := range inserts {
			for n := range 3 {
				exec(`INSERT INTO `+table+` `+sql, id, n)
			}
		}
	}
	rows, err := pool.Query(t.Context(), `SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
		WHERE column_name = 'run_id' AND table_schema = 'ingest' AND table_type = 'BASE TABLE'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(tables), len(inserts)+2)
	left := func(runID string) (with []string) {
		for _, table := range tables {
			var found bool
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM `+table+` WHERE run_id = $1)`, runID).Scan(&found))
			if found {
				with = append(with, table)
			}
		}
		return with
	}
	require.ElementsMatch(t, tables, left("gone"), "the test must have a row in each table")

	e, store := &run.Expiry{Pool: pool}, &run.Store{Pool: pool, Clock: clock.Real()}
	for range 2 {
		require.NoError(t, e.Delete(t.Context(), "gone"))
	}
	require.NoError(t, e.Delete(t.Context(), "never reported"))
	for _, name := range []string{"gone", "job_gone"} {
		o, err := store.Find(t.Context(), name)
		require.NoError(t, err)
		require.Nil(t, o, "a deleted run must be hidden")
	}
	_, err = store.Progress(t.Context(), "gone")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.NoError(t, e.ClearDeleted(t.Context()))
	require.Empty(t, left("gone"))
	require.ElementsMatch(t, tables, left("kept"))
	count := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM run`).Scan(&n))
		return n
	}
	require.Equal(t, 2, count(), "the row must stay until no earlier request can create it again")
	exec(`UPDATE run SET deleted_at = deleted_at - interval '11 minutes'`)
	require.NoError(t, e.ClearDeleted(t.Context()))
	require.Equal(t, 1, count())
}

// No model can be registered from a sealed run, and a run from which one may be being registered cannot be sealed.
func TestExpiry_Seal(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	_, err = pool.Exec(t.Context(), `INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at) SELECT i, i, 'u', 'p', 'p', 'team', now()
		FROM unnest('{free,busy}'::text[]) i`)
	require.NoError(t, err)
	e := &run.Expiry{Pool: pool}
	require.NoError(t, e.HoldForModel(t.Context(), "busy", "art_1"))
	for id, want := range map[string]bool{"free": true, "busy": false, "never reported": true} {
		sealed, err := e.Seal(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, sealed, id)
	}
	require.True(t, fault.Is(e.HoldForModel(t.Context(), "free", "art_1"), fault.Absent))
	require.NoError(t, e.HoldForModel(t.Context(), "busy", "art_1"))
	_, err = pool.Exec(t.Context(), `UPDATE run SET sealed_at = sealed_at - interval '16 minutes', artifact_read_at = artifact_read_at - interval '16 minutes'`)
	require.NoError(t, err)
	require.NoError(t, e.HoldForModel(t.Context(), "free", "art_1"), "a seal must end")
	sealed, err := e.Seal(t.Context(), "busy")
	require.NoError(t, err)
	require.True(t, sealed)
}
