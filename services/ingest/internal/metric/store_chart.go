package metric

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// MaxBuckets is the maximum number of buckets in one response, so that the response fits into a gRPC message.
const MaxBuckets = 24_000

// The constant recentSteps is the number of steps of a series that are put in order at a time, and maxRecent is the
// maximum for all series of a page. Processes of a distributed training report the same steps at about the same time.
const (
	recentSteps = 1024
	maxRecent   = 1 << 17
)

// Charts returns a page of a run's series as charts, sorted by key. If keys is not empty, it returns only the series
// with these keys. Each chart has at most the given number of points or buckets, and fewer if the page would have more
// than MaxBuckets; with most 0, it has only the Stats. Charts reads the run's rows several times, and the memory that it
// uses does not depend on their number. It waits like List.
func (s *Store) Charts(
	ctx context.Context, runID string, keys []string, w Window, most int, p request.Page,
) (charts []Chart, more bool, err error) {
	charts, _, more, err = s.chartsRead(ctx, runID, keys, w, most, p)
	return charts, more, err
}

// chartsRead is Charts. It also returns the number of the last row that it has read.
func (s *Store) chartsRead(
	ctx context.Context, runID string, keys []string, w Window, most int, p request.Page,
) (charts []Chart, last int64, more bool, err error) {
	ids, series, err := s.keys(ctx, runID, keys, p)
	if err != nil || len(series) == 0 {
		return nil, 0, false, err
	}
	series, more = request.CutPage(series, p)
	r := s.newReading(runID, ids, series, w, most)
	if err := s.plotAll(ctx, []*reading{r}, most); err != nil {
		return nil, 0, false, err
	}
	return r.charts(), r.last, more, nil
}

// maxTogether is the maximum number of series that ChartsOf reads with the same statements.
const maxTogether = 512

// ChartsOf returns the charts of several runs, each with the series that have the given keys, sorted by key, like Charts.
func (s *Store) ChartsOf(ctx context.Context, runs, keys []string, w Window, most int) ([][]Chart, error) {
	found, err := s.keysOf(ctx, runs, keys)
	if err != nil {
		return nil, err
	}
	out := make([][]Chart, len(runs))
	var together []*reading
	var at []int
	series := 0
	read := func() error {
		if len(together) == 0 {
			return nil
		}
		err := s.plotAll(ctx, together, most)
		for i := range together {
			out[at[i]] = together[i].charts()
		}
		together, at, series = nil, nil, 0
		return err
	}
	for i, id := range runs {
		if of := found[id]; of != nil {
			together, at = append(together, s.newReading(id, of.ids, of.series, w, most)), append(at, i)
			series += len(of.ids)
		}
		if series >= maxTogether {
			if err := read(); err != nil {
				return nil, err
			}
		}
	}
	return out, read()
}

// plotAll makes the charts of readings with the same number of points or buckets.
func (s *Store) plotAll(ctx context.Context, all []*reading, most int) error {
	leave, err := s.gate.Enter(ctx, run.CallerReader(ctx))
	if err != nil {
		return err
	}
	defer leave()
	return s.snapshot(ctx, func(ctx context.Context, db pgx.Tx) error {
		if err := begin(ctx, db, all); err != nil {
			return err
		}
		if err := fetchHeads(ctx, db, all); err != nil {
			return err
		}
		for _, r := range all {
			if err := s.plot(ctx, r, most); err != nil {
				return err
			}
		}
		return addPending(ctx, db, all)
	})
}

// plots contains a plot for each key of a page. The index is the id of the key; entries of other keys are nil.
type plots []*plot

func (a plots) has(key int32) bool { return key >= 0 && int(key) < len(a) && a[key] != nil }

// each calls fn for each plot.
func (a plots) each(fn func(*plot)) {
	for _, p := range a {
		if p != nil {
			fn(p)
		}
	}
}

// plot adds the points that readers see to their plots. A plot needs the range of the positions of its points before it
// can divide the points among buckets, so the rows are read several times. They never change, but may be deleted.
func (s *Store) plot(ctx context.Context, r *reading, most int) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	late, err := r.survey(ctx, math.MinInt64)
	if err != nil {
		return err
	}
	if most == 0 {
		if late.none() {
			return r.summarize(ctx) // the survey has added all points
		}
		r.plots.each(func(p *plot) { p.chart.Stats = Stats{} })
	}
	if r.axis == Times && !late.none() {
		// The survey has also measured points that late points replaced.
		r.plots.each(func(p *plot) { p.low, p.high = math.MaxInt64, math.MinInt64 })
		if err := r.winners(ctx, late, (*plot).measure); err != nil {
			return err
		}
	}
	r.plots.each((*plot).measureBlocks)
	if err := r.winners(ctx, late, (*plot).add); err != nil {
		return err
	}
	r.plots.each(func(p *plot) { p.blocks.expand = p.most > 0 && p.buckets == nil })
	return r.summarize(ctx)
}

// reading reads the points of a run for its plots.
type reading struct {
	store *Store
	db    querier
	runID string
	last  int64
	plots plots
	keys  []int32
	axis  Axis
	// from and to are the steps that the window may contain.
	from, to int64
	blocks   bool // the run has blocks
	folded   bool // some of them are in summaries
	units    *units
	fetched  bool // unsorted has the blocks of the plots
	unsorted []head
	dirty    []blockID // sorted
	clean    []head
	many     bool   // clean is not complete
	rows     bool   // the run may have rows
	whole    bool   // all blocks are read like rows
	pending  []head // clean blocks whose points have to be added
}

func (s *Store) newReading(runID string, ids []int32, series []Series, w Window, most int) *reading {
	ids = ids[:len(series)]
	all := make(plots, slices.Max(ids)+1)
	for i := range series {
		all[ids[i]] = newPlot(series[i], w, min(most, s.MaxBuckets(len(series))), min(s.recent, maxRecent/len(series)))
	}
	r := &reading{store: s, runID: runID, plots: all, keys: ids, axis: w.Axis, from: w.From, to: w.To}
	if w.Axis == Times {
		r.from, r.to = math.MinInt64, math.MaxInt64
	}
	return r
}

// charts returns the charts in the order of the keys.
func (r *reading) charts() []Chart {
	charts := make([]Chart, len(r.keys))
	for i, id := range r.keys {
		charts[i] = r.plots[id].done()
	}
	return charts
}

// prepare finds out which blocks are clean.
func (r *reading) prepare(ctx context.Context) error {
	if !r.blocks || r.whole {
		return nil
	}
	if r.rows {
		r.rows = false
		err := scan(ctx, r.plots.has, func(attempt int32, at Point) {
			r.rows = true
			if p := r.plots[at.Key]; !p.hidden(attempt, at.Step) {
				p.blocks.rowLow, p.blocks.rowHigh = min(p.blocks.rowLow, at.Step), max(p.blocks.rowHigh, at.Step)
			}
		}, r.db, r.runID, r.last)
		if err != nil {
			return err
		}
	}
	return r.sort(ctx)
}

// scan passes the points of dirty blocks and then of rows to visit.
func (r *reading) scan(ctx context.Context, visit func(attempt int32, p Point)) error {
	if r.whole && r.blocks {
		if err := scanBlocks(ctx, visit, r.db, blocksSQL, r.runID, r.keys); err != nil {
			return err
		}
	}
	if len(r.dirty) > 0 {
		if err := scanBlocks(ctx, visit, r.db, dirtySQL, append([]any{r.runID}, columnsOf(r.dirty)...)...); err != nil {
			return err
		}
	}
	if !r.rows {
		return nil
	}
	return scan(ctx, r.plots.has, visit, r.db, r.runID, r.last)
}

// read passes the visible points of the run to out, in the order of their steps as far as recent can put them in order,
// and the points that come too late for that to late.
func (r *reading) read(ctx context.Context, late, out func(p *plot, key int32, s Seen)) error {
	r.plots.each(func(p *plot) { p.recent.reset() })
	err := r.scan(ctx, func(attempt int32, at Point) {
		p := r.plots[at.Key]
		if p.hidden(attempt, at.Step) {
			return
		}
		s := Seen{Step: at.Step, Value: at.Value, Micros: at.Micros, Attempt: attempt}
		if !p.recent.add(s) {
			late(p, at.Key, s)
			return
		}
		for _, s := range p.recent.full() {
			out(p, at.Key, s)
		}
	})
	for key, p := range r.plots {
		if p != nil {
			for _, s := range p.recent.rest() {
				out(p, int32(key), s)
			}
		}
	}
	return err
}

// survey returns the late points whose step is from or higher. The first survey of a reading also measures the points.
func (r *reading) survey(ctx context.Context, from int64) (*latePoints, error) {
	late := &latePoints{from: from, to: math.MaxInt64, most: r.store.late}
	measure := func(p *plot, s Seen) {
		if from == math.MinInt64 {
			p.survey(s)
		}
	}
	err := r.read(ctx, func(p *plot, key int32, s Seen) {
		measure(p, s)
		late.add(latePoint{key, s})
	}, func(p *plot, _ int32, s Seen) { measure(p, s) })
	late.finish()
	return late, err
}

// winners passes each point that readers see to visit: of the points of a step, only the last one. It reads the rows
// once for each part of the steps; late is the survey of the first part.
func (r *reading) winners(ctx context.Context, late *latePoints, visit func(*plot, Seen)) error {
	for {
		err := r.read(ctx, func(*plot, int32, Seen) {}, func(p *plot, key int32, s Seen) {
			if late.covers(s.Step) && !late.replaces(key, s.Step) {
				visit(p, s)
			}
		})
		if err != nil {
			return err
		}
		for _, l := range late.points {
			visit(r.plots[l.key], l.Seen)
		}
		if late.to == math.MaxInt64 {
			return nil
		}
		if late, err = r.survey(ctx, late.to+1); err != nil {
			return err
		}
	}
}
