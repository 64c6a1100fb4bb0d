package metric

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/test/curve"
)

// drawn is a run with two keys whose reports were drawn.
type drawn struct {
	id   string
	keys [2]reports
	// hides has the lowest step that each attempt hides of older ones.
	hides map[int32]int64
}

// drawReports draws a key's reports.
func drawReports(draw *rand.Rand, n int, late float64) (r reports) {
	for _, one := range curve.Draw(draw, n, late) {
		r.add(one.Attempt, Point{Step: one.Step, Value: one.Value, Micros: one.Micros})
	}
	return r
}

// store stores the reports in rows of random lengths. A row has points of one attempt.
func (d *drawn) store(b *harness, draw *rand.Rand) {
	b.t.Helper()
	err := pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		batch, seq := &pgx.Batch{}, 0
		var row []Point
		var at [2]int
		attempt := int32(1)
		flush := func() {
			if len(row) > 0 {
				seq++
				batch.Queue(`INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at) VALUES ($1, $2, $3, $4, $5, now())`,
					d.id, seq, attempt, len(row), Pack(row))
			}
			row = nil
		}
		for at[0] < len(d.keys[0]) || at[1] < len(d.keys[1]) {
			moved := false
			for k, r := range d.keys {
				for range draw.IntN(20) {
					if at[k] < len(r) && r[at[k]].attempt == attempt {
						p := r[at[k]].Point
						p.Key = int32(k) + 1
						row, moved = append(row, p), true
						at[k]++
					}
				}
			}
			if draw.IntN(3) == 0 || !moved {
				flush()
			}
			done := func(k int) bool { return at[k] == len(d.keys[k]) || d.keys[k][at[k]].attempt > attempt }
			if done(0) && done(1) {
				flush()
				attempt++
			}
		}
		flush()
		batch.Queue(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, attempt, batch_seq, key_count)
			VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now(), $2, $3, 2)`, d.id, attempt-1, seq)
		batch.Queue(`INSERT INTO metric_key (run_id, id, key) VALUES ($1, 1, 'a'), ($1, 2, 'b')`, d.id)
		d.hides = hiddenFrom(d.keys[:]...)
		for attempt, low := range d.hides {
			var resume *int64 // half of the attempts resume from a checkpoint
			if draw.IntN(2) == 0 {
				resume = new(low + int64(draw.IntN(60)-10))
				d.hides[attempt] = *resume + 1
			}
			batch.Queue(`INSERT INTO attempt_step (run_id, attempt, low_step, resume_step) VALUES ($1, $2, $3, $4)`, d.id, attempt, low, resume)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	require.NoError(b.t, err)
}

// seenIn returns the points of a key that readers see within a window, by the definition of hidden points, sorted by
// position.
func (d *drawn) seenIn(key int, w Window) []Seen {
	var out []Seen
	for _, p := range d.keys[key].seenByDefinition(d.hides) {
		if x := w.Axis.of(&p); x >= w.From && x <= w.To {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Seen) int { return w.Axis.compare(&a, &b) })
	return out
}

// sameSeen compares points. NaN is equal to NaN.
func sameSeen(t *testing.T, want, got Seen) {
	t.Helper()
	if math.IsNaN(want.Value) && math.IsNaN(got.Value) {
		want.Value, got.Value = 0, 0
	}
	require.Equal(t, want, got)
}

// sameStats compares statistics of points, which are sorted by position, with a direct computation.
func sameStats(t *testing.T, points []Seen, got *Stats) {
	t.Helper()
	sameSeen(t, points[0], got.First)
	sameSeen(t, points[len(points)-1], got.Last)
	sameValues(t, points, got)
	for _, p := range points {
		require.False(t, p.Value == got.Low.Value && p.Step < got.Low.Step || p.Value == got.High.Value && p.Step < got.High.Step)
	}
}

// sameValues is sameStats for the Stats of a bucket.
func sameValues(t *testing.T, points []Seen, got *Stats) {
	t.Helper()
	require.EqualValues(t, len(points), got.Count)
	sameSeen(t, Seen{Value: points[len(points)-1].Value}, Seen{Value: got.Last.Value})
	var numbers []float64
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, p := range points {
		first, last = min(first, p.Step), max(last, p.Step)
		if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
			numbers = append(numbers, p.Value)
		}
	}
	require.Equal(t, []int64{first, last}, []int64{got.FirstStep, got.LastStep})
	require.EqualValues(t, len(points)-len(numbers), got.Odd)
	if len(numbers) == 0 {
		return
	}
	sum := 0.0
	for _, v := range numbers {
		sum += v
	}
	require.Equal(t, []float64{slices.Min(numbers), slices.Max(numbers)}, []float64{got.Low.Value, got.High.Value})
	require.InDelta(t, sum/float64(len(numbers)), got.Mean(), 1e-9*max(1, math.Abs(slices.Max(numbers)), math.Abs(slices.Min(numbers))))
}

// sameChart compares a chart with the points that it must summarize.
func sameChart(t *testing.T, points []Seen, w Window, most int, got *Chart) {
	t.Helper()
	require.EqualValues(t, len(points), got.Count)
	if len(points) == 0 {
		require.Empty(t, got.Points)
		require.Empty(t, got.Buckets)
		return
	}
	sameStats(t, points, &got.Stats)
	if len(points) <= most {
		require.Empty(t, got.Buckets)
		require.Len(t, got.Points, len(points))
		for i := range points {
			sameSeen(t, points[i], got.Points[i])
		}
		return
	}
	require.Empty(t, got.Points)
	require.LessOrEqual(t, len(got.Buckets), most)
	x := func(i int) int64 { return w.Axis.of(&points[i]) }
	low, span := x(0), uint64(x(len(points)-1)-x(0))
	width := span/uint64(most) + 1
	total := 0
	for i := range got.Buckets {
		b := &got.Buckets[i]
		require.LessOrEqual(t, uint64(b.To-b.From), width+width/3, "buckets are about equally wide")
		require.True(t, b.From >= low && b.To <= x(len(points)-1) && b.From <= b.To)
		require.True(t, i == 0 || b.From > got.Buckets[i-1].To, "buckets are in order")
		begin := total
		for total < len(points) && x(total) <= b.To {
			require.GreaterOrEqual(t, x(total), b.From, "every point is in a bucket")
			total++
		}
		require.Greater(t, total, begin, "a bucket without points is left out")
		sameValues(t, points[begin:total], &b.Stats)
	}
	require.Equal(t, len(points), total)
}

// drawWindow draws a window that often cuts the points of a key, and may contain none of them.
func drawWindow(draw *rand.Rand, r reports) Window {
	w := All(Axis(draw.IntN(2)))
	position := func() int64 {
		p := r[draw.IntN(len(r))]
		return w.Axis.of(&Seen{Step: p.Step, Micros: p.Micros}) + int64(draw.IntN(3)-1)
	}
	if draw.IntN(3) > 0 {
		w.From = position()
	}
	if draw.IntN(3) > 0 {
		w.To = position()
	}
	return w
}

func TestStore_Charts_matchDefinition(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(7, 8))
	b := open(t)
	for n, name := range []string{"regular", "few late", "many late", "only late", "short"} {
		d := &drawn{id: name}
		late := []float64{0, 0.02, 0.4, 1, 0.1}[n]
		size := []int{900, 900, 900, 600, 8}[n]
		d.keys = [2]reports{drawReports(draw, size, late), drawReports(draw, size/2, late)}
		d.store(b, draw)
		store := NewStore(b.pool, run.NewGate())
		for i, most := range []int{5, 6, 7, 10, 16, 33, 50, 100, 150, 333, 800, 2000} {
			if i%4 == 3 { // first all points are in rows, then some, and finally none
				b.compact(d.id, draw, i+1 == 12)
			}
			store.clean = []int{maxClean, 3, 0}[i%3]
			store.recent, store.late = []int{recentSteps, 10, 100}[i%3], []int{maxLate, 40}[i%2] // with 40, the steps are read in several parts
			for range 2 {
				w := drawWindow(draw, d.keys[0])
				got, more, err := store.Charts(t.Context(), d.id, nil, w, most, request.Page{Limit: 10})
				require.NoError(t, err)
				require.False(t, more)
				require.Len(t, got, 2)
				for k := range got {
					require.Equal(t, []string{"a", "b"}[k], got[k].Key)
					sameChart(t, d.seenIn(k, w), w, most, &got[k])
				}
			}
		}
	}
}

func TestStore_Charts_onlyStats(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(9, 10))
	b := open(t)
	for n, name := range []string{"regular", "few late", "only late"} {
		late := []float64{0, 0.02, 1}[n]
		d := &drawn{id: name, keys: [2]reports{drawReports(draw, 900, late), drawReports(draw, 400, late)}}
		d.store(b, draw)
		store := NewStore(b.pool, run.NewGate())
		for i := range 12 {
			if i%4 == 3 {
				b.compact(d.id, draw, i == 11)
			}
			store.clean = []int{maxClean, 3, 0}[i%3]
			store.recent, store.late = []int{recentSteps, 10, 10, 100}[i%4], []int{maxLate, 40}[i%2]
			w := []Window{All(Steps), drawWindow(draw, d.keys[0])}[i/2%2]
			got, _, err := store.Charts(t.Context(), d.id, nil, w, 0, request.Page{Limit: 10})
			require.NoError(t, err)
			for k := range got {
				require.Empty(t, got[k].Points)
				require.Empty(t, got[k].Buckets)
				if points := d.seenIn(k, w); len(points) > 0 {
					sameStats(t, points, &got[k].Stats)
				}
			}
		}
	}
}

// counting counts the queries that read points of rows, and the blocks whose points are read.
type counting struct {
	database

	reads  int
	opened int // blocks whose points were read
	heads  int // blocks without summaries that were read
}

func (c *counting) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := c.database.BeginTx(ctx, opts)
	return countingTx{tx, c}, err
}

type countingTx struct {
	pgx.Tx

	in *counting
}

func (c countingTx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, q := range batch.QueuedQueries {
		if q.SQL != looseSQL {
			continue
		}
		var n int
		if err := c.Tx.QueryRow(ctx, `SELECT count(*) FROM (`+q.SQL+`) b`, q.Arguments...).Scan(&n); err != nil {
			c.in.heads += 1000
		}
		c.in.heads += n
	}
	return c.Tx.SendBatch(ctx, batch)
}

func (c countingTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	switch sql {
	case forwardSQL:
		c.in.reads++
	case openSQL, dirtySQL:
		c.in.opened += len(args[1].([]int64))
	case pointsSQL:
		c.in.opened += len(args[0].([]int32))
	case headsSQL, coveredSQL:
		c.in.heads += 1000
	}
	return c.Tx.Query(ctx, sql, args...)
}

// The processes of a distributed training report the same steps, some of them with a delay. The rows must not be read more
// often because of that.
func TestStore_Charts_readsRowsAtMostTwice(t *testing.T) {
	t.Parallel()
	const processes, steps = 8, 5000
	var r reports
	for step := range int64(steps) {
		for process := range int64(processes) {
			if at := step - 100*process; at >= 0 {
				r.add(1, Point{Step: at, Value: float64(process), Micros: step})
			}
		}
	}
	b := open(t)
	d := &drawn{id: "many", keys: [2]reports{r, r}}
	d.store(b, rand.New(rand.NewPCG(11, 12)))
	db := &counting{database: b.pool}
	store := NewStore(db, run.NewGate())
	for most, want := range map[int]int{0: 1, 100: 2} {
		for _, axis := range []Axis{Steps, Times} {
			db.reads = 0
			got, _, err := store.Charts(t.Context(), d.id, nil, All(axis), most, request.Page{Limit: 2})
			require.NoError(t, err)
			require.Equal(t, want, db.reads)
			if most > 0 {
				sameChart(t, d.keys[0].lastOfSteps(axis), All(axis), most, &got[0])
			}
		}
	}
}

// lastOfSteps returns the last report of each step, sorted by position, of reports of one attempt.
func (r *reports) lastOfSteps(axis Axis) []Seen {
	last := map[int64]Seen{}
	for _, p := range *r {
		last[p.Step] = Seen{Step: p.Step, Value: p.Value, Micros: p.Micros, Attempt: p.attempt}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b Seen) int { return axis.compare(&a, &b) })
}

func TestGrid_coversEveryPositionOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		low, high int64
		n         int
	}{
		{0, 0, 5},
		{0, 1, 5},
		{-3, 3, 5},
		{0, 999, 1000},
		{0, 1000, 1000},
		{-7, 12345, 17},
		{math.MaxInt64 - 2, math.MaxInt64, 2000},
		{math.MinInt64, math.MaxInt64, 2000},
		{math.MinInt64, math.MaxInt64, 7},
		{math.MinInt64, 0, 3},
		{math.MinInt64 + 1, math.MaxInt64, 5},
	} {
		g := newGrid(c.low, c.high, c.n)
		require.LessOrEqual(t, g.n, uint64(c.n))
		require.Equal(t, c.low, g.begin(0))
		require.Equal(t, c.high, g.end(int(g.n)-1))
		for i := range int(g.n) {
			require.Equal(t, []int{i, i}, []int{g.bucket(g.begin(i)), g.bucket(g.end(i))}, "%+v", c)
			require.True(t, i == 0 || g.begin(i) == g.end(i-1)+1, "%+v", c)
		}
	}
}
