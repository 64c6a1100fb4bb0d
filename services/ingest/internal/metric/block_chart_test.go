package metric

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// inOrder returns a long series without late points. Its steps have the given distance.
func inOrder(draw *rand.Rand, n int, distance int64) reports {
	var r reports
	at := int64(1_700_000_000_000_000)
	for i := range int64(n) {
		at += draw.Int64N(2_000_000)
		value := draw.NormFloat64()
		if draw.IntN(1000) == 0 {
			value = math.NaN()
		}
		r.add(1, Point{Step: 1000 + i*distance, Value: value, Micros: at})
	}
	return r
}

// Charts of a long series use the summaries in blocks, and decode only the blocks that the window cuts.
func TestStore_Charts_readsSummaries(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(31, 32))
	b := open(t)
	const n = 10_000
	for name, distance := range map[string]int64{"every step": 1, "every 100th step": 100} {
		d := &drawn{id: name, keys: [2]reports{inOrder(draw, n, distance), inOrder(draw, 2000, distance)}}
		d.store(b, draw)
		var last int64
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT max(seq) FROM metric_batch WHERE run_id = $1`, name).Scan(&last))
		b.move(name, last/2)
		b.move(name, last-10)
		db := &counting{database: b.pool}
		store := NewStore(db, run.NewGate())
		for _, c := range []struct {
			most, opened int
			w            Window
		}{
			{0, 0, All(Steps)},
			{0, 0, All(Times)},
			{9, 0, All(Steps)},
			{7, 4, Window{Axis: Steps, From: 1000 + 1111*distance, To: 1000 + 9259*distance}}, // two blocks are cut: to measure, and to add
			{100, n, drawWindow(draw, d.keys[0])},
			{2, n, All(Times)}, // only a few of the blocks are cut
			{3, n, All(Times)},
			{100, n, All(Times)},
			{600, n, All(Steps)},
			{n, n, All(Steps)},
		} {
			db.opened = 0
			got, _, err := store.Charts(t.Context(), name, []string{"a"}, c.w, c.most, request.Page{Limit: 2})
			require.NoError(t, err)
			require.LessOrEqual(t, db.opened, c.opened, "%+v", c)
			if c.most == 0 {
				sameStats(t, d.keys[0].lastOfSteps(c.w.Axis), &got[0].Stats)
				continue
			}
			var want []Seen
			for _, p := range d.keys[0].lastOfSteps(c.w.Axis) {
				if x := c.w.Axis.of(&p); x >= c.w.From && x <= c.w.To {
					want = append(want, p)
				}
			}
			sameChart(t, want, c.w, min(c.most, MaxBuckets), &got[0])
		}
	}
}
