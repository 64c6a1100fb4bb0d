package metric

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// BenchmarkDeltas measures how long it takes to read what 1,000 runs with ten metrics each have reported within a second: one row a
// run, or nothing.
func BenchmarkDeltas(b *testing.B) {
	const runs, keys, earlier = 1000, 10, 100
	h := open(b)
	exec := func(sql string, args ...any) {
		_, err := h.pool.Exec(b.Context(), sql, args...)
		require.NoError(b, err)
	}
	exec(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, attempt, batch_seq, key_count)
		SELECT 'r' || n, 'job', 'usr', 'prj', 'team', 'team', now(), 1, $2, $3 FROM generate_series(1, $1::int) n`, runs, earlier, keys)
	exec(`INSERT INTO metric_key (run_id, id, key) SELECT 'r' || n, k, convert_to('key ' || k, 'UTF8')
		FROM generate_series(1, $1::int) n, generate_series(1, $2::int) k`, runs, keys)
	row := make([]Point, keys)
	for i := range row {
		row[i] = Point{Key: int32(i) + 1, Step: 1, Value: float64(i), Micros: 1}
	}
	insert := func(from, to int) {
		exec(`INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at)
			SELECT 'r' || n, s, 1, $2, $3, now() FROM generate_series(1, $1::int) n, generate_series($4::int, $5::int) s`, runs, keys, Pack(row), from, to)
	}
	insert(1, earlier)
	exec(`ANALYZE`)
	store := NewStore(h.pool, run.NewGate())
	shown, err := store.Shown(b.Context(), "r1")
	require.NoError(b, err)
	var pages [][]Known
	for n := range runs {
		if n%500 == 0 {
			pages = append(pages, nil)
		}
		pages[n/500] = append(pages[n/500], Known{RunID: fmt.Sprint("r", n+1), Rows: earlier, Shown: shown})
	}
	pass := func() (changed int) {
		for _, known := range pages {
			deltas, err := store.Deltas(b.Context(), known)
			require.NoError(b, err)
			for i := range deltas {
				require.False(b, deltas[i].Whole)
				require.Len(b, deltas[i].Keys, keys)
			}
			changed += len(deltas)
		}
		return changed
	}
	for _, want := range []int{0, runs} {
		if want > 0 {
			insert(earlier+1, earlier+1)
			exec(`UPDATE run SET batch_seq = batch_seq + 1 WHERE id LIKE 'r%' AND batch_seq > 0`)
		}
		b.Run(fmt.Sprintf("%d of %d runs have reported", want, runs), func(b *testing.B) {
			const rounds = 9
			var took time.Duration
			for n := range rounds + 1 {
				began := time.Now()
				require.Equal(b, want, pass())
				if n > 0 { // the first round warms up
					took += time.Since(began)
				}
			}
			b.ReportMetric(float64(took.Microseconds())/rounds/1000, "ms/pass")
			b.ReportMetric(0, "ns/op")
		})
	}
}
