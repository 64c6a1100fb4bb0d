package metric

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// rounds is the number of times that each of two sides is measured, one after the other.
const rounds = 5

// sides measures ours and theirs in turn and reports the ratios of the medians: of the time, and of the CPU time of this
// process and of the database, which depends less on what else the machine does.
func sides(b *testing.B, h *harness, g goal, ours, theirs func()) {
	b.Helper()
	var times, cpus [2][]float64
	for range rounds + 1 {
		for i, call := range []func(){ours, theirs} {
			began, before := time.Now(), h.cpu()
			call()
			times[i], cpus[i] = append(times[i], time.Since(began).Seconds()), append(cpus[i], h.cpu()-before)
		}
	}
	middle := func(v []float64) float64 {
		v = v[1:] // the first round warms up
		slices.Sort(v)
		return v[len(v)/2]
	}
	var measuring []float64
	for range rounds {
		before := h.cpu()
		measuring = append(measuring, h.cpu()-before)
	}
	for i := range cpus {
		for k := range cpus[i] {
			cpus[i][k] -= middle(measuring)
		}
	}
	ratio := middle(times[1]) / middle(times[0])
	b.ReportMetric(ratio, "times")
	b.ReportMetric(middle(cpus[1])/middle(cpus[0]), "cpu-times")
	b.ReportMetric(middle(times[0])*1000, "our-ms")
	b.ReportMetric(middle(cpus[0])*1000, "our-cpu-ms")
	b.ReportMetric(0, "ns/op")
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(b, err)
	b.Logf("%s: %.3g (goal: %s): %s; load %s", g.what, ratio, g, g.verdict(ratio), strings.Fields(string(load))[0])
}

// goal is a bound of a ratio. If least is not set, the ratio must be at most the bound.
type goal struct {
	what  string
	bound float64
	least bool
}

func (g goal) String() string {
	if g.least {
		return fmt.Sprintf("at least %g", g.bound)
	}
	return fmt.Sprintf("at most %g", g.bound)
}

func (g goal) verdict(ratio float64) string {
	if g.least && ratio >= g.bound || !g.least && ratio <= g.bound {
		return "met"
	}
	return "not met"
}

// cpu returns the CPU seconds of this process and of the database processes that serve clients.
func (b *harness) cpu() float64 {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'`)
	require.NoError(b.t, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(b.t, err)
	total := 0.0
	for _, pid := range append(pids, os.Getpid()) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		require.NoError(b.t, err)
		for _, file := range threads {
			if text, err := os.ReadFile(file); err == nil {
				var ns float64
				_, err := fmt.Sscan(string(text), &ns)
				require.NoError(b.t, err)
				total += ns / 1e9
			}
		}
	}
	return total
}

// series stores a closed run with one key, whose points are reported in rows of the given length, moves them into blocks
// and copies them into the narrow table as the run with the given number, unless the number is not positive.
func (b *harness) series(number, points, perRow int) string {
	b.t.Helper()
	id := fmt.Sprintf("run_%d_%d", number, points)
	value := func(i int) float64 { return float64(float32(math.Sin(float64(i)/1000) + float64(i*7919%1000)/1000)) }
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, closed_at, attempt, batch_seq, key_count)
			VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now(), now(), 1, $2, 1)`, id, points/perRow)
		batch.Queue(`INSERT INTO metric_key (run_id, id, key) VALUES ($1, 1, 'loss')`, id)
		batch.Queue(`INSERT INTO metric_hot (run_id, due) VALUES ($1, now() - interval '1 minute')`, id)
		row := make([]Point, perRow)
		for seq := range points / perRow {
			for i := range row {
				step := seq*perRow + i
				row[i] = Point{Key: 1, Step: int64(step), Value: value(step), Micros: 1_800_000_000_000_000 + int64(step)*1_000_000 + int64(step*7919%1000)}
			}
			batch.Queue(`INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at) VALUES ($1, $2, 1, $3, $4, now())`,
				id, seq+1, perRow, Pack(row))
			if batch.Len() >= 500 {
				if err := tx.SendBatch(ctx, batch).Close(); err != nil {
					return err
				}
				batch = &pgx.Batch{}
			}
		}
		return tx.SendBatch(ctx, batch).Close()
	}))
	require.NoError(b.t, b.compactor(segmentPoints).pass(b.t.Context()))
	if number <= 0 {
		return id
	}
	_, err := b.owner().CopyFrom(b.t.Context(), pgx.Identifier{"narrow"}, []string{"run", "key", "step", "value"}, pgx.CopyFromSlice(points, func(i int) ([]any, error) {
		return []any{int64(number), int64(1), int64(i), value(i)}, nil
	}))
	require.NoError(b.t, err)
	return id
}

// buckets runs the SQL that summarizes series of the narrow table, and reads its result.
func (b *harness) buckets(runs []int64, points, buckets int) {
	b.t.Helper()
	rows, err := b.owner().Query(b.t.Context(), `SELECT run, width_bucket(step, 0, $2::bigint, $3::int) AS bucket, min(value), max(value), avg(value), count(*)
		FROM narrow WHERE run = ANY($1) AND key = 1 GROUP BY 1, 2 ORDER BY 1, 2`, runs, points, buckets)
	require.NoError(b.t, err)
	var of, n int64
	var bucket int32
	var low, high, mean float64
	tag, err := pgx.ForEachRow(rows, []any{&of, &bucket, &low, &high, &mean, &n}, func() error { return nil })
	require.NoError(b.t, err)
	require.EqualValues(b.t, buckets*len(runs), tag.RowsAffected())
}

// BenchmarkBlocks compares the reading of blocks with SQL on a narrow table with a bigint key, in the same database.
func BenchmarkBlocks(b *testing.B) {
	h := open(b)
	_, err := h.owner().Exec(b.Context(), `CREATE TABLE narrow (run bigint, key bigint, step bigint, value double precision, PRIMARY KEY (run, key, step))`)
	require.NoError(b, err)
	const million = 1_000_000
	one := h.series(1, million, 1000)
	var ids []string
	var numbers []int64
	for i := range 100 {
		numbers = append(numbers, int64(1000+i))
		ids = append(ids, h.series(1000+i, 10_000, 100))
	}
	_, err = h.owner().Exec(b.Context(), `VACUUM ANALYZE`)
	require.NoError(b, err)
	_, err = h.owner().Exec(b.Context(), `SET max_parallel_workers_per_gather = 0`) // the CPU time of workers is not counted
	require.NoError(b, err)
	store := NewStore(h.pool, run.NewGate())
	chart := func(id string, most int) {
		charts, _, err := store.Charts(b.Context(), id, nil, All(Steps), most, request.Page{Limit: 10})
		require.NoError(b, err)
		require.Greater(b, len(charts[0].Buckets), most*4/5)
	}
	b.Run("Q1 chart of a million points", func(b *testing.B) {
		g := goal{"Q1 SQL on a narrow table / chart", 100, true}
		sides(b, h, g, func() { chart(one, 1000) }, func() { h.buckets([]int64{1}, million, 1000) })
	})
	b.Run("Q3 full read of a million points", func(b *testing.B) {
		sides(b, h, goal{"Q3 SQL on a narrow table / series", 8, true}, func() {
			_, _, err := store.List(b.Context(), one, nil, request.Page{Limit: 10})
			require.NoError(b, err)
		}, func() {
			rows, err := h.owner().Query(b.Context(), `SELECT step, value FROM narrow WHERE run = 1 AND key = 1 ORDER BY step`)
			require.NoError(b, err)
			var p Point
			_, err = pgx.ForEachRow(rows, []any{&p.Step, &p.Value}, func() error { return nil })
			require.NoError(b, err)
		})
	})
	b.Run("Q4 compare of 100 runs", func(b *testing.B) {
		sides(b, h, goal{"Q4 SQL on a narrow table / comparison", 20, true}, func() {
			charts, err := store.ChartsOf(b.Context(), ids, []string{"loss"}, All(Steps), 500)
			require.NoError(b, err)
			require.Len(b, charts, len(ids))
			for _, of := range charts {
				require.Len(b, of[0].Buckets, 500)
			}
		}, func() { h.buckets(numbers, 10_000, 500) })
	})
	besideManyRuns(b, h, ids[:20])
}

// besideManyRuns compares a database that also has 100,000 runs with one that has 1,000.
func besideManyRuns(b *testing.B, h *harness, ids []string) {
	b.Helper()
	other := open(b)
	var few []string
	for i := range ids {
		few = append(few, other.series(-1-i, 10_000, 100))
	}
	for to, runs := range map[*harness]int{h: 100_000, other: 1000} {
		to.fillRuns(runs)
	}
	store, small := NewStore(h.pool, run.NewGate()), NewStore(other.pool, run.NewGate())
	charts := func(s *Store, ids []string) {
		_, err := s.ChartsOf(b.Context(), ids, []string{"loss"}, All(Steps), 500)
		require.NoError(b, err)
	}
	commit := func(to *harness) {
		for i := range 20 {
			require.NoError(b, to.put(1, columns(steps("a", i*10, 10)...)))
		}
	}
	for name, call := range map[string]func(to *harness, s *Store, ids []string){
		"chart":   func(_ *harness, s *Store, ids []string) { charts(s, ids[:1]) },
		"compare": func(_ *harness, s *Store, ids []string) { charts(s, ids) },
		"commit":  func(to *harness, _ *Store, _ []string) { commit(to) },
	} {
		b.Run("Q5 "+name+" beside 1,000 runs and beside 100,000", func(b *testing.B) {
			g := goal{"Q5 " + name + " beside 100,000 runs / beside 1,000", 1.2, false}
			sides(b, h, g, func() { call(other, small, few) }, func() { call(h, store, ids) })
		})
	}
}

// fillRuns adds runs with three blocks each, whose contents nothing reads.
func (b *harness) fillRuns(n int) {
	b.t.Helper()
	for _, sql := range []string{
		`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, attempt, batch_seq, key_count)
			SELECT 'fill_' || n, 'job', 'usr', 'prj', 'team', 'team', now(), 1, 10, 1 FROM generate_series($1::int, $2::int) n`,
		`INSERT INTO metric_key (run_id, id, key) SELECT 'fill_' || n, 1, 'loss' FROM generate_series($1::int, $2::int) n`,
		`INSERT INTO metric_block (run_id, first_seq, key, part, attempt, low_step, high_step, low_time, high_time, low_index, high_index, points, whole, pieces, data)
			SELECT 'fill_' || n, 1, 1, part, 1, part * 1000, part * 1000 + 999, 0, 0, 0, 0, 1000, '', '', '' FROM generate_series($1::int, $2::int) n, generate_series(1, 3) part`,
	} {
		const once = 1000
		for from := 1; from <= n; from += once {
			_, err := b.pool.Exec(b.t.Context(), sql, from, from+once-1)
			require.NoError(b.t, err)
		}
	}
	_, err := b.owner().Exec(b.t.Context(), `VACUUM ANALYZE`)
	require.NoError(b.t, err)
}
