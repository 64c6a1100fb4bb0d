package read

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// comparison collects the metrics of several runs.
type comparison struct {
	keys   []string
	byKey  map[string]*ingestv1.ComparedMetric
	window metric.Window // of all series
	series int
	charts map[string][]metric.Chart // of the runs by key; nil without bands
}

// sorted returns the metrics that some run has.
func (c *comparison) sorted() []*ingestv1.ComparedMetric {
	out := make([]*ingestv1.ComparedMetric, 0, len(c.byKey))
	for _, key := range slices.Sorted(maps.Keys(c.byKey)) {
		out = append(out, c.byKey[key])
	}
	return out
}

// add adds the summary of a metric of a run.
func (c *comparison) add(runID string, chart *metric.Chart, goals run.Goals) {
	m := c.byKey[chart.Key]
	if m == nil {
		m = &ingestv1.ComparedMetric{Key: chart.Key}
		c.byKey[chart.Key] = m
	}
	m.Runs = append(m.Runs, &ingestv1.ComparedSeries{RunId: runID, Summary: summaryProto(chart, goals)})
	c.series++
}

// extend extends the window to the points of a chart.
func (c *comparison) extend(chart *metric.Chart) {
	switch {
	case chart.Count == 0:
	case c.window.Axis == metric.Times:
		c.window.From, c.window.To = min(c.window.From, chart.First.Micros), max(c.window.To, chart.Last.Micros)
	default:
		c.window.From, c.window.To = min(c.window.From, chart.FirstStep), max(c.window.To, chart.LastStep)
	}
}

// summaries adds the summaries of the runs' metrics and, if the series follow, extends their window.
func (s *CompareServer) summaries(ctx context.Context, runs []string, c *comparison, follow bool) error {
	all, err := s.Metrics.ChartsOf(ctx, runs, c.keys, metric.All(metric.Steps), 0)
	if err != nil {
		return err
	}
	goals, err := s.Goals(ctx, runs)
	if err != nil {
		return err
	}
	for n, charts := range all {
		for i := range charts {
			c.add(runs[n], &charts[i], goals[runs[n]])
		}
	}
	if follow && c.window.Axis == metric.Times { // the first and the last step need not be the first and the last time
		if all, err = s.Metrics.ChartsOf(ctx, runs, c.keys, metric.All(metric.Times), 0); err != nil {
			return err
		}
	}
	for _, charts := range all {
		for i := range charts {
			c.extend(&charts[i])
		}
	}
	return nil
}

// addSeries adds the points or buckets of the runs' metrics to their summaries.
func (s *CompareServer) addSeries(ctx context.Context, runs []string, c *comparison, points int) error {
	all, err := s.Metrics.ChartsOf(ctx, runs, c.keys, c.window, points)
	if err != nil {
		return err
	}
	for n, charts := range all {
		for i := range charts {
			m := c.byKey[charts[i].Key]
			if m == nil {
				continue // it was reported meanwhile
			}
			for _, one := range m.GetRuns() {
				if one.GetRunId() == runs[n] {
					one.Series = chartProto(&charts[i], c.window.Axis)
				}
			}
			if c.charts != nil {
				c.charts[charts[i].Key] = append(c.charts[charts[i].Key], charts[i])
			}
		}
	}
	return nil
}

// bands adds the bands over the runs.
func (c *comparison) bands(points int) {
	for key, charts := range c.charts {
		for _, b := range metric.Bands(charts, c.window, points) {
			c.byKey[key].Band = append(c.byKey[key].Band, &ingestv1.MetricBand{
				From: positionText(b.From, c.window.Axis), To: positionText(b.To, c.window.Axis), Runs: b.Runs, Mean: b.Mean, Min: b.Low, Max: b.High,
			})
		}
	}
}

// pair is a point of a series with the value that another series has at its step.
type pair struct {
	x float64
	metric.Seen
}

// joinSeries returns the points with a number from one value to another one, sorted by it and then by step. Both series
// are sorted by step. It leaves out values that different attempts reported for a step, because they do not belong together.
// omitted is the number of points without a number, whatever the values are between which the others must be.
func joinSeries(points, over []metric.Seen, from, to float64) (joined []pair, omitted int64) {
	for _, p := range points {
		for len(over) > 0 && over[0].Step < p.Step {
			over = over[1:]
		}
		switch x := numberAt(over, p); {
		case math.IsNaN(x):
			omitted++
		case x >= from && x <= to:
			joined = append(joined, pair{x, p})
		}
	}
	slices.SortStableFunc(joined, func(a, b pair) int { return cmp.Compare(a.x, b.x) })
	return joined, omitted
}

// numberAt returns the value of the first of the points if it is a number that was reported with p, and otherwise NaN.
func numberAt(points []metric.Seen, p metric.Seen) float64 {
	if len(points) == 0 || points[0].Step != p.Step || points[0].Attempt != p.Attempt || math.IsInf(points[0].Value, 0) {
		return math.NaN()
	}
	return points[0].Value
}

// joinedProto divides points into at most the given number of buckets of equal width, or into one for each x if there are
// few points.
func joinedProto(of *metric.Series, points []pair, most int) *ingestv1.MetricSeries {
	out := &ingestv1.MetricSeries{Key: of.Key, Rank: of.Rank, Count: new(int64(len(points)))}
	if len(points) == 0 {
		return out
	}
	first, last := &points[0], &points[len(points)-1]
	out.First, out.Last = pointProto(&first.Seen), pointProto(&last.Seen)
	bucket := func(x float64) float64 { return x }
	if len(points) > most {
		width := last.x/float64(most) - first.x/float64(most)
		bucket = func(x float64) float64 { return min(math.Floor((x/2-first.x/2)/(width/2)), float64(most-1)) }
	}
	for len(points) > 0 {
		n := 1
		for n < len(points) && (points[n].x == points[0].x || bucket(points[n].x) == bucket(points[0].x)) {
			n++
		}
		out.Buckets = append(out.Buckets, pairsProto(points[:n]))
		points = points[n:]
	}
	return out
}

// pairsProto summarizes the points of a bucket.
func pairsProto(points []pair) *ingestv1.MetricBucket {
	last := &points[len(points)-1]
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	b := &ingestv1.MetricBucket{
		From: text(points[0].x), To: text(last.x), FirstStep: last.Step, LastStep: last.Step, Last: last.Value, Count: int64(len(points)),
	}
	low, high, mean, n := math.Inf(1), math.Inf(-1), 0.0, 0.0
	for i := range points {
		p := &points[i]
		b.FirstStep, b.LastStep = min(b.GetFirstStep(), p.Step), max(b.GetLastStep(), p.Step)
		if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
			b.Nan++
			continue
		}
		n++
		low, high, mean = min(low, p.Value), max(high, p.Value), mean*((n-1)/n)+p.Value/n
	}
	if n > 0 {
		b.Min, b.Max, b.Mean = &low, &high, new(min(max(mean, low), high))
	}
	return b
}
