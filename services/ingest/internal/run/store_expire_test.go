package run_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// bulk returns the tables with the data of runs, with a statement that inserts the row number $2 of run $1.
func bulk() map[string]string {
	return map[string]string{
		"metric_batch":   `(run_id, seq, attempt, points, data, created_at) VALUES ($1, $2, 1, 1, '', now())`,
		"metric_segment": `(run_id, first_seq, last_seq, rows) VALUES ($1, $2, $2, '')`,
		"metric_block": `(run_id, first_seq, key, part, attempt, low_step, high_step, low_time, high_time, low_index, high_index, points, whole, pieces, data)
			VALUES ($1, $2, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, '', '', '')`,
		"metric_summary": `(run_id, level, key, first_seq, last_seq, attempt, low_step, high_step, points, least, most, data)
			VALUES ($1, 0, 1, $2, $2, 1, 1, 1, 1, 7, 7, '')`,
		"metric_key":            `(run_id, id, key) VALUES ($1, $2, '')`,
		"log_chunk":             `(run_id, first_seq, lines, attempt, data, created_at) VALUES ($1, $2, 1, 1, '', now())`,
		"log_tail":              `(run_id, writer, attempt, data) VALUES ($1, $2::int::text, 1, '')`,
		"sample":                `(run_id, attempt, step, chunk_index, index) VALUES ($1, 1, 1, 1, $2)`,
		"rank_sample":           `(run_id, attempt, rank, step, chunk_index, index) VALUES ($1, 1, 1, 1, 1, $2)`,
		"rank_validation_chunk": `(run_id, attempt, rank, step, chunk_index, samples) VALUES ($1, 1, 1, 1, $2, 1)`,
		"validation_chunk":      `(run_id, attempt, step, chunk_index, samples) VALUES ($1, 1, 1, $2, 1)`,
		"hardware_batch":        `(run_id, attempt, first_at, last_at, points, data, created_at) SELECT $1, 1, now(), now(), 1, '', now() WHERE $2 >= 0`,
		"hardware_series":       `(run_id, id, node, gpu, key) VALUES ($1, $2, '', '', $2::int::text)`,
		"rollout":               `(run_id, task, number, attempt, masked, reported_at) VALUES ($1, '', $2, 1, true, now())`,
		"record":                `(run_id, stream, attempt, item, body, created_at) VALUES ($1, '', 1, $2::int::text, '', now())`,
		"hparam_history":        `(run_id, key, value, attempt, updated_at, replaced_at) SELECT $1, '', '', 1, now(), now() WHERE $2 >= 0`,
		"request_digest":        `(run_id, stream, writer, seq, digest) VALUES ($1, '', '', $2, '')`,
		"ahead":                 `(run_id, stream, writer, seq) VALUES ($1, '', '', $2)`,
		"mark":                  `(run_id, stream, writer, seq) VALUES ($1, '', $2::int::text, 1)`,
		"artifact":              `(id, run_id, attempt, kind, format, step, path, size_bytes, created_at) VALUES ($1 || $2::int, $1, 1, 'checkpoint', '', $2, '', 1, now())`,
	}
}

func TestExpiry_Clear_dataOfExpiredRunsOnly(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err, sql)
	}
	count := func(table, runID string) (n int) {
		t.Helper()
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` WHERE run_id = $1`, runID).Scan(&n))
		return n
	}
	for _, id := range []string{"old", "open", "registering", "kept"} {
		exec(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, closed_at) VALUES ($1, $1, 'u', 'p', 'p', 'team', now(),
			CASE WHEN $1 <> 'open' THEN now() END)`, id)
		exec(`INSERT INTO hparam (run_id, key, value, attempt, updated_at) VALUES ($1, 'lr', '1', 1, now())`, id)
		exec(`INSERT INTO validation_round (run_id, attempt, step, total_chunks, created_at) VALUES ($1, 1, 1, 1, now())`, id)
		exec(`INSERT INTO metric_hot (run_id, due) VALUES ($1, now())`, id)
		for table, sql := range bulk() {
			for n := range 3 {
				exec(`INSERT INTO `+table+` `+sql, id, n)
			}
		}
	}
	e := &run.Expiry{Pool: pool}
	require.NoError(t, e.HoldForModel(t.Context(), "registering", "art_1"))
	expired, err := e.Expire(t.Context(), []string{"old", "open", "registering", "never reported"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"old", "never reported"}, expired)
	err = e.HoldForModel(t.Context(), "old", "art_1")
	require.True(t, fault.Is(err, fault.Absent), "no model can be registered from expired data: %v", err)

	total := int64(0)
	for {
		n, err := e.Clear(t.Context(), time.Time{}, 4)
		require.NoError(t, err)
		require.LessOrEqual(t, n, int64(4))
		if total += n; n == 0 {
			break
		}
	}
	require.EqualValues(t, 3*len(bulk())+1, total)
	require.Zero(t, count("metric_hot", "old"))
	require.Equal(t, 1, count("metric_hot", "open"))
	for table := range bulk() {
		require.Zero(t, count(table, "old"), table)
		for _, id := range []string{"open", "registering", "kept"} {
			require.Equal(t, 3, count(table, id), table+" of "+id)
		}
	}
	require.Equal(t, 1, count("hparam", "old"), "the hyperparameters of a run stay")
	require.Equal(t, 1, count("validation_round", "old"), "the results of a run stay")

	exec(`UPDATE run SET artifact_read_at = artifact_read_at - interval '16 minutes'`)
	expired, err = e.Expire(t.Context(), []string{"registering", "old"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"registering", "old"}, expired, "no model was registered in time")
}

// A run may have millions of rows, and a table may contain the rows of many runs.
func TestExpiry_Clear_usesIndexesAtManyRows(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	d := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	pool := d.Pool("ingest")
	for sql, rows := range map[string]int{
		`INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at) SELECT 'run_' || n % 100, n, 1, 1, '', now() FROM generate_series(1, $1) n`:           100_000,
		`INSERT INTO sample (run_id, attempt, step, chunk_index, index) SELECT 'run_' || n % 100, 1, n, 1, 1 FROM generate_series(1, $1) n`:                              100_000,
		`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at) SELECT 'run_' || n, n, '', '', '', '', now() FROM generate_series(1, $1) n`: 20_000,
	} {
		_, err := pool.Exec(t.Context(), sql, rows)
		require.NoError(t, err)
	}
	_, err = d.OwnerPool("ingest").Exec(t.Context(), `ANALYZE`)
	require.NoError(t, err)
	for _, sql := range []string{
		`DELETE FROM metric_batch WHERE ctid IN (SELECT ctid FROM metric_batch WHERE run_id = 'run_7' LIMIT 1000)`,
		`DELETE FROM sample WHERE ctid IN (SELECT ctid FROM sample WHERE run_id = 'run_7' LIMIT 1000)`,
		`SELECT id FROM run WHERE expired_at IS NOT NULL AND cleared_at IS NULL ORDER BY expired_at LIMIT 1`,
	} {
		rows, err := pool.Query(t.Context(), `EXPLAIN `+sql)
		require.NoError(t, err)
		var plan []string
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			plan = append(plan, line)
		}
		require.NoError(t, rows.Err())
		require.NotContains(t, strings.Join(plan, "\n"), "Seq Scan", sql+strconv.Itoa(len(plan)))
	}
}
