package metric

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

func TestEachBrief_reversesPackBriefs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]brief{
		"none":    nil,
		"float32": {{first: -5, last: 3, count: 4, odd: 1, end: 0.5, low: -1, high: 2, sum: 0.1}, {first: 7, last: 7, count: 1, odd: 1, end: math.Inf(1)}},
		"float64": {{first: math.MinInt64, last: math.MaxInt64, count: 9, end: 0.1, low: 0.1, high: 1e300, sum: 3}},
	} {
		data := packBriefs(want)
		var got []brief
		require.NoError(t, eachBrief(data, func(b *brief) {
			if b.count == b.odd {
				b.low, b.high, b.sum = 0, 0, 0
			}
			got = append(got, *b)
		}))
		require.Equal(t, want, got, name)
		for n := range data {
			require.ErrorIs(t, eachBrief(data[:n], func(*brief) {}), errBatch, "%s cut at %d", name, n)
		}
	}
}

func FuzzEachBrief(f *testing.F) {
	f.Add(packBriefs([]brief{{first: 1, last: 9, count: 3, end: 0.1, low: 1, high: 2, sum: 3}}))
	f.Fuzz(func(_ *testing.T, data []byte) { _ = eachBrief(data, func(*brief) {}) })
}

// summed stores a long series in segments of few blocks, with summaries of 3 segments each, and keeps the last rows.
func (b *harness) summed(draw *rand.Rand, name string, r reports) *drawn {
	b.t.Helper()
	d := &drawn{id: name, keys: [2]reports{r, r[:len(r)/4]}}
	d.store(b, draw)
	var last int64
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT max(seq) FROM metric_batch WHERE run_id = $1`, name).Scan(&last))
	for i := range int64(10) {
		if b.move(name, (i+1)*(last-3)/10); i%3 == 2 {
			b.summarize(name, 0)
		}
	}
	return d
}

// A chart of many blocks reads few summaries instead of them, and the same as by the definition.
func TestStore_Charts_readsFewSummaries(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(51, 52))
	b := open(t)
	for name, distance := range map[string]int64{"every step": 1, "every 100th step": 100} {
		d := b.summed(draw, name, inOrder(draw, 9000, distance))
		store := NewStore(b.pool, run.NewGate())
		for _, most := range []int{0, 5, 9, 33, 100, 1000} {
			for i := range 4 {
				w := []Window{All(Steps), All(Times), drawWindow(draw, d.keys[0]), drawWindow(draw, d.keys[0])}[i]
				got, _, err := store.Charts(t.Context(), name, []string{"a"}, w, most, request.Page{Limit: 2})
				require.NoError(t, err)
				if want := d.seenIn(0, w); most > 0 {
					sameChart(t, want, w, most, &got[0])
				} else if len(want) > 0 {
					sameStats(t, want, &got[0].Stats)
				}
			}
		}
		db := &counting{database: b.pool}
		_, _, err := NewStore(db, run.NewGate()).Charts(t.Context(), name, []string{"a"}, All(Steps), 9, request.Page{Limit: 2})
		require.NoError(t, err)
		require.Less(t, db.heads, 5, "only the blocks of the last segment are read one by one")
		require.Zero(t, db.opened)
	}
}

// Points that replace points of summarized blocks, in rows, in later blocks or of a newer attempt, count.
func TestStore_Charts_summaryIsReplaced(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(53, 54))
	b := open(t)
	for name, add := range map[string]func(r *reports, last Point){
		"late in rows": func(r *reports, last Point) {
			r.add(1, Point{Step: last.Step - 5000, Value: 1e6, Micros: last.Micros})
		},
		"new attempt": func(r *reports, last Point) {
			r.add(2, Point{Step: last.Step - 5000, Value: 1e6, Micros: last.Micros})
		},
		"late in blocks": func(r *reports, last Point) {
			r.add(1, Point{Step: last.Step - 5000, Value: 1e6, Micros: last.Micros})
			*r = append(*r, inOrder(draw, 2000, 1)...)
		},
	} {
		r := inOrder(draw, 9000, 1)
		add(&r, r[len(r)-1].Point)
		d := b.summed(draw, name, r)
		if name == "late in blocks" {
			b.move(name, math.MaxInt64)
		}
		store := NewStore(b.pool, run.NewGate())
		for _, most := range []int{5, 20, 100} {
			got, err := store.ChartsOf(t.Context(), []string{"none", name}, []string{"a", "b"}, All(Steps), most)
			require.NoError(t, err)
			require.Empty(t, got[0])
			for k := range got[1] {
				sameChart(t, d.seenIn(k, All(Steps)), All(Steps), most, &got[1][k])
			}
		}
	}
}

func TestSummarize_needsEnoughBlocks(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns(steps("a", 0, 3*blockSize)...)))
	c := b.compactor(segmentPoints)
	count := func() (n int) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM metric_summary WHERE level = 0`).Scan(&n))
		return n
	}
	require.NoError(t, c.pass(t.Context()))
	require.Zero(t, count())
	for i := range groupBlocks / 8 {
		require.NoError(t, b.put(1, columns(steps("a", (3+8*i)*blockSize, 8*blockSize)...)))
	}
	b.exec(`UPDATE metric_hot SET due = now() - interval '1 minute'`)
	require.NoError(t, c.pass(t.Context()))
	require.Equal(t, 1, count())
	require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error { return summarize(ctx, tx, "run_1", 1) }))
	require.Equal(t, 1, count(), "no block is summarized twice")
}

// The charts of several runs are the same as by the definition, however many of their points are in blocks, and whether
// or not the blocks of all runs are read at once.
func TestStore_ChartsOf_severalRuns(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(55, 56))
	b := open(t)
	names := []string{"blocks", "half", "none", "rows"}
	all := map[string]*drawn{}
	for i, name := range names {
		if name == "none" {
			continue
		}
		d := &drawn{id: name, keys: [2]reports{drawReports(draw, 3000, 0.01), drawReports(draw, 500, 0.01)}}
		d.store(b, draw)
		all[name] = d
		var last int64
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT max(seq) FROM metric_batch WHERE run_id = $1`, name).Scan(&last))
		if name != "rows" {
			b.move(name, last/int64(i+1))
		}
	}
	store := NewStore(b.pool, run.NewGate())
	for _, store.clean = range []int{store.clean, 2} {
		for _, most := range []int{5, 20, 100} {
			got, err := store.ChartsOf(t.Context(), names, []string{"a", "b"}, All(Steps), most)
			require.NoError(t, err)
			for i, name := range names {
				if all[name] == nil {
					require.Empty(t, got[i])
					continue
				}
				require.Len(t, got[i], 2)
				for k := range got[i] {
					sameChart(t, all[name].seenIn(k, All(Steps)), All(Steps), most, &got[i][k])
				}
			}
		}
	}
}
