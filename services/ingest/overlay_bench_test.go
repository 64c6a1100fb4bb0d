package ingest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/id"
)

// BenchmarkOverlay measures the chart of 50 runs on top of each other, through the public address of an installation, beside
// the SQL that summarizes them on a narrow table.
func BenchmarkOverlay(b *testing.B) {
	const runs, points, buckets = 50, 20_000, 400 // a comparison has room for 20,000 buckets
	h := newQueries(b)
	var ids []string
	for range runs {
		ids = append(ids, h.store(points))
	}
	h.settle()
	h.narrow(runs, points)
	b.Run("26-Q3 50 runs overlaid beside SQL", func(b *testing.B) {
		theirs, took := h.beside(func() { h.overlay(ids, buckets) }, func() { h.overlaySQL(runs, points, buckets) })
		report(b, fmt.Sprintf("26-Q3 SQL on a narrow table / 50 runs overlaid over HTTP (%.0f ms)", took*1000), theirs, 1, true)
	})
}

// overlay reads the charts of several runs through the API.
func (h *queries) overlay(ids []string, buckets int) {
	h.b.Helper()
	body := map[string]any{"run_ids": ids, "keys": []string{"loss"}, "points": buckets}
	answer, err := h.loop.Client.Call(h.b.Context(), http.MethodPost, "/api/runs/compare", body)
	require.NoError(h.b, err)
	require.Equal(h.b, http.StatusOK, answer.Status, "%.300s", answer.Body)
	require.Equal(h.b, len(ids)*buckets, bytes.Count(answer.Body, []byte(`"first_step"`)))
}

// overlaySQL reads the same from the narrow table.
func (h *queries) overlaySQL(runs, points, buckets int) {
	h.b.Helper()
	rows, err := h.pool.Query(h.b.Context(), `SELECT run, width_bucket(step, 0, $2::bigint, $3::int) AS bucket, min(value), max(value), avg(value), count(*)
		FROM narrow WHERE run <= $1 AND key = 1 GROUP BY 1, 2 ORDER BY 1, 2`, runs, points, buckets)
	require.NoError(h.b, err)
	var run, n int64
	var bucket int32
	var low, high, mean float64
	tag, err := pgx.ForEachRow(rows, []any{&run, &bucket, &low, &high, &mean, &n}, func() error { return nil })
	require.NoError(h.b, err)
	require.EqualValues(h.b, runs*buckets, tag.RowsAffected())
}

// BenchmarkLogSearch measures the search of a whole log through the public address of an installation, beside the same search
// in a table with a row per line. BENCH_LINES sets another length than 2,500,000 lines.
func BenchmarkLogSearch(b *testing.B) {
	lines := size(b, "BENCH_LINES", 2_500_000)
	h := newQueries(b)
	run := h.log(lines)
	want := lines / rareLine
	b.Run(fmt.Sprintf("26-Q4 search in %d lines beside SQL", lines), func(b *testing.B) {
		theirs, took := h.beside(func() { require.Len(b, h.search(run), want) }, func() { require.Len(b, h.searchSQL(), want) })
		report(b, fmt.Sprintf("26-Q4 SQL on a row per line / search over HTTP (%.0f ms)", took*1000), theirs, 1, true)
	})
}

// rareLine is the number of lines per line that is found.
const rareLine = 100_000

// rarePattern finds these lines.
const rarePattern = `CUDA error: [a-z ]+ at rank [0-9]+`

// logLine returns the line with a number, from 1.
func logLine(n int) string {
	if n%rareLine == 0 {
		return fmt.Sprintf("2026-11-21 03:00:00,%03d ERROR CUDA error: out of memory at rank %d", n%1000, n%8)
	}
	return fmt.Sprintf("2026-11-21 03:00:00,%03d INFO step %d loss=%.4f lr=3.00e-04 tokens/s=%d", n%1000, n, value(n), 10_000+n%997)
}

// log stores the log of a closed run, in chunks as reports leave them, and in a table with a row per line.
func (h *queries) log(lines int) string {
	h.b.Helper()
	const perChunk = 1000
	run := h.ids.New(id.Run)
	h.exec(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, closed_at, attempt, line_seq)
		VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now(), now(), 1, $2)`, run, lines)
	_, err := h.pool.CopyFrom(h.b.Context(), pgx.Identifier{"log_chunk"}, []string{"run_id", "first_seq", "lines", "attempt", "data", "created_at"},
		pgx.CopyFromSlice(lines/perChunk, func(i int) ([]any, error) {
			var data strings.Builder
			for n := range perChunk {
				data.WriteString(logLine(i*perChunk+n+1) + "\n")
			}
			return []any{run, int64(i*perChunk + 1), int32(perChunk), int32(1), []byte(data.String()), time.Now()}, nil
		}))
	require.NoError(h.b, err)
	h.exec(`CREATE TABLE log_line (run bigint, seq bigint, text text, PRIMARY KEY (run, seq))`)
	_, err = h.pool.CopyFrom(h.b.Context(), pgx.Identifier{"log_line"}, []string{"run", "seq", "text"},
		pgx.CopyFromSlice(lines, func(i int) ([]any, error) { return []any{int64(1), int64(i + 1), logLine(i + 1)}, nil }))
	require.NoError(h.b, err)
	h.exec(`VACUUM ANALYZE log_chunk, log_line`)
	return run
}

// search returns the numbers of the lines that the API finds in the whole log.
func (h *queries) search(run string) (found []int64) {
	h.b.Helper()
	var page struct {
		Lines    []struct{ Seq int64 }
		Searched int64
		Complete bool
	}
	for !page.Complete {
		query := url.Values{"pattern": {rarePattern}, "after": {fmt.Sprint(page.Searched)}, "limit": {"500"}}
		page.Lines = nil
		require.NoError(h.b, json.Unmarshal(h.get("/api/runs/"+run+"/logs/search?"+query.Encode()), &page))
		for _, l := range page.Lines {
			found = append(found, l.Seq)
		}
	}
	return found
}

// searchSQL returns the same from the table with a row per line.
func (h *queries) searchSQL() []int64 {
	h.b.Helper()
	rows, err := h.pool.Query(h.b.Context(), `SELECT seq FROM log_line WHERE run = 1 AND text ~ $1 ORDER BY seq`, rarePattern)
	require.NoError(h.b, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(h.b, err)
	return found
}
