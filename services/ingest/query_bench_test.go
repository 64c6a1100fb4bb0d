package ingest_test

import (
	"crypto/rand"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// size returns a size that the named environment variable may set.
func size(b *testing.B, name string, usual int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(b, err)
	return n
}

// BenchmarkQueries measures charts through the public address of an installation: of a million points beside SQL on a narrow
// table with a bigint key in the same database, and of ten million points. BENCH_POINTS sets another length.
func BenchmarkQueries(b *testing.B) {
	h := newQueries(b)
	const million = 1_000_000
	most := size(b, "BENCH_POINTS", 10*million)
	one, long := h.series(million), h.series(most)
	h.narrow(1, million)
	ours := func() { h.chart(one, million) }
	b.Run("Q1 chart of a million points beside SQL", func(b *testing.B) {
		theirs, took := h.beside(ours, func() { h.buckets(million) })
		report(b, fmt.Sprintf("Q1 SQL on a narrow table / chart over HTTP (%.1f ms)", took*1000), theirs, 100, true)
	})
	b.Run(fmt.Sprintf("Q2 chart of %d points beside a million", most), func(b *testing.B) {
		longer, _ := h.beside(ours, func() { h.chart(long, most) })
		report(b, fmt.Sprintf("Q2 chart of %d points / of a million, over HTTP", most), longer, 2, false)
	})
	b.Run("Q3 series of a million points beside SQL", func(b *testing.B) {
		theirs, took := h.beside(func() { h.list(one) }, func() { h.read(million) })
		report(b, fmt.Sprintf("Q3 SQL on a narrow table / series over HTTP, with JSON of 90,000 points (%.0f ms)", took*1000), theirs, 8, true)
	})
}

// queries is an installation with access to its database.
type queries struct {
	b    *testing.B
	loop *e2eflow.Loop
	pool *pgxpool.Pool
	ids  *id.Source
}

func newQueries(b *testing.B) *queries {
	b.Helper()
	s := testenv.Single(b, testenv.Options{})
	h := &queries{b: b, loop: s.Loop(b.Context()), ids: id.NewSource(clock.Real(), rand.Reader)}
	dir := filepath.Join(s.Dir, "data", "postgres")
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	require.NoError(b, err)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(b, err)
	lines := strings.Split(string(pid), "\n") // the fourth line is the port
	require.Greater(b, len(lines), 4)
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))),
		Host: "127.0.0.1:" + lines[3], Path: "/signalbox", RawQuery: "search_path=ingest",
	}
	h.pool, err = pgxpool.New(b.Context(), u.String())
	require.NoError(b, err)
	b.Cleanup(h.pool.Close)
	return h
}

func (h *queries) exec(sql string, args ...any) {
	h.b.Helper()
	_, err := h.pool.Exec(h.b.Context(), sql, args...)
	require.NoError(h.b, err, sql)
}

func value(i int) float64 {
	return float64(float32(math.Sin(float64(i)/1000) + float64(i*7919%1000)/1000))
}

// series stores a closed run with a series and waits until its points are in blocks.
func (h *queries) series(points int) string {
	h.b.Helper()
	run := h.store(points)
	h.settle()
	return run
}

// settle moves all rows into blocks.
func (h *queries) settle() {
	h.b.Helper()
	compact(h.b, h.pool)
	h.exec(`VACUUM (ANALYZE) metric_block, metric_summary, metric_segment, metric_batch, run`)
}

// store stores a closed run with a series.
func (h *queries) store(points int) string {
	h.b.Helper()
	const perRow = 1000
	run := h.ids.New(id.Run)
	h.exec(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, closed_at, attempt, batch_seq, key_count)
		VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now(), now(), 1, $2, 1)`, run, points/perRow)
	h.exec(`INSERT INTO metric_key (run_id, id, key) VALUES ($1, 1, 'loss')`, run)
	row := make([]metric.Point, perRow)
	_, err := h.pool.CopyFrom(h.b.Context(), pgx.Identifier{"metric_batch"}, []string{"run_id", "seq", "attempt", "points", "data", "created_at"},
		pgx.CopyFromSlice(points/perRow, func(seq int) ([]any, error) {
			for i := range row {
				step := seq*perRow + i
				row[i] = metric.Point{Key: 1, Step: int64(step), Value: value(step), Micros: 1_800_000_000_000_000 + int64(step)*1_000_000 + int64(step*7919%1000)}
			}
			return []any{run, int64(seq + 1), int32(1), int32(perRow), metric.Pack(row), time.Now()}, nil
		}))
	require.NoError(h.b, err)
	h.exec(`INSERT INTO metric_hot (run_id, due) VALUES ($1, now())`, run)
	return run
}

// narrow makes the table that SQL reads, with the series of the given number of runs, from 1.
func (h *queries) narrow(runs, points int) {
	h.b.Helper()
	h.exec(`CREATE TABLE narrow (run bigint, key bigint, step bigint, value double precision, PRIMARY KEY (run, key, step))`)
	_, err := h.pool.CopyFrom(h.b.Context(), pgx.Identifier{"narrow"}, []string{"run", "key", "step", "value"},
		pgx.CopyFromSlice(runs*points, func(i int) ([]any, error) {
			return []any{int64(i/points + 1), int64(1), int64(i % points), value(i % points)}, nil
		}))
	require.NoError(h.b, err)
	h.exec(`VACUUM ANALYZE narrow`)
}

// buckets reads a chart with 1000 buckets from the narrow table.
func (h *queries) buckets(points int) {
	h.b.Helper()
	rows, err := h.pool.Query(h.b.Context(), `SELECT width_bucket(step, 0, $1::bigint, 1000) AS bucket, min(value), max(value), avg(value), count(*)
		FROM narrow WHERE run = 1 AND key = 1 GROUP BY 1 ORDER BY 1`, points)
	require.NoError(h.b, err)
	var bucket int32
	var n int64
	var low, high, mean float64
	tag, err := pgx.ForEachRow(rows, []any{&bucket, &low, &high, &mean, &n}, func() error { return nil })
	require.NoError(h.b, err)
	require.EqualValues(h.b, 1000, tag.RowsAffected())
}

// read reads all points from the narrow table.
func (h *queries) read(points int) {
	h.b.Helper()
	rows, err := h.pool.Query(h.b.Context(), `SELECT step, value FROM narrow WHERE run = 1 AND key = 1 ORDER BY step`)
	require.NoError(h.b, err)
	var step int64
	var v float64
	tag, err := pgx.ForEachRow(rows, []any{&step, &v}, func() error { return nil })
	require.NoError(h.b, err)
	require.EqualValues(h.b, points, tag.RowsAffected())
}

func (h *queries) get(path string) []byte {
	h.b.Helper()
	a, err := h.loop.Client.Call(h.b.Context(), http.MethodGet, path, nil)
	require.NoError(h.b, err)
	require.Equal(h.b, http.StatusOK, a.Status, "%.300s", a.Body)
	return a.Body
}

// chart reads a chart with 1000 buckets through the API.
func (h *queries) chart(run string, points int) {
	h.b.Helper()
	body := h.get("/api/runs/" + run + "/series?points=1000")
	require.Contains(h.b, string(body[len(body)-500:]), fmt.Sprintf(`"last_step":%d,`, points-1))
}

// list reads a series through the API, which thins it to 90,000 points.
func (h *queries) list(run string) {
	h.b.Helper()
	body := h.get("/api/runs/" + run + "/metrics")
	require.Greater(h.b, len(body), 90_000*8)
}

// beside calls two functions in turn and returns the ratio of the median times of the second and the first one, and the
// median time of the first one in seconds.
func (h *queries) beside(first, second func()) (ratio, took float64) {
	h.b.Helper()
	const rounds = 9
	var times [2][]float64
	for range rounds + 1 {
		for i, call := range []func(){first, second} {
			began := time.Now()
			call()
			times[i] = append(times[i], time.Since(began).Seconds())
		}
	}
	for i := range times {
		times[i] = times[i][1:] // the first round warms up
		slices.Sort(times[i])
	}
	return times[1][rounds/2] / times[0][rounds/2], times[0][rounds/2]
}

// report prints a ratio beside its goal.
func report(b *testing.B, name string, ratio, goal float64, least bool) {
	b.Helper()
	verdict, bound := "met", "at most"
	if least {
		bound = "at least"
	}
	if least != (ratio >= goal) {
		verdict = "not met"
	}
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(b, err)
	b.ReportMetric(ratio, "ratio")
	b.ReportMetric(0, "ns/op")
	b.Logf("%s: %.3g (goal: %s %g): %s; load %s", name, ratio, bound, goal, verdict, strings.Fields(string(load))[0])
}
