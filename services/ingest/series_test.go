package ingest_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/test/curve"
)

// curves are drawn reports of two keys of a run, with the lowest step that each attempt hides of older ones.
type curves struct {
	of    map[string][]curve.Report
	hides map[int32]int64
}

// drawCurves draws the reports of a run: n of the first key and half as many of the second one. A part of the attempts
// resumes from a checkpoint.
func drawCurves(draw *rand.Rand, n int, late float64) *curves {
	c := &curves{of: map[string][]curve.Report{"a": curve.Draw(draw, n, late), "b": curve.Draw(draw, n/2, late)}, hides: map[int32]int64{}}
	for _, key := range []string{"a", "b"} {
		for _, p := range c.of[key] {
			if low, ok := c.hides[p.Attempt]; p.Attempt > 1 && (!ok || p.Step < low) {
				c.hides[p.Attempt] = p.Step
			}
		}
	}
	return c
}

// report reports the points over HTTP, one attempt after another, in requests of random lengths. Every other attempt
// resumes from a checkpoint near its lowest step.
func (c *curves) report(run *training, draw *rand.Rand) {
	sent := map[string]int{}
	for attempt := int32(1); sent["a"] < len(c.of["a"]) || sent["b"] < len(c.of["b"]); attempt++ {
		switch {
		case attempt > 1 && attempt%2 == 0:
			resume := c.hides[attempt] + int64(draw.IntN(60)-10)
			run.resumed(attempt, resume)
			c.hides[attempt] = resume + 1
		case attempt > 1:
			run.attempt(attempt)
		}
		for more := true; more; {
			more = false
			var list []string
			for _, key := range []string{"a", "b"} {
				for range draw.IntN(200) + 1 {
					all := c.of[key]
					if i := sent[key]; i < len(all) && all[i].Attempt == attempt {
						list = append(list, reportedPoint(key, &all[i]))
						sent[key]++
						more = true
					}
				}
			}
			if more {
				run.post("metrics", "", points(list...))
			}
		}
	}
}

// reportedPoint returns a point of a report in JSON.
func reportedPoint(key string, p *curve.Report) string {
	value := strconv.FormatFloat(p.Value, 'g', -1, 64)
	if p.Value-p.Value != 0 {
		value = strconv.Quote(strings.Replace(strings.TrimPrefix(value, "+"), "Inf", "Infinity", 1))
	}
	return fmt.Sprintf(`{"key":%q,"step":%d,"value":%s,"ts":%q}`, key, p.Step, value, time.UnixMicro(p.Micros).UTC().Format(time.RFC3339Nano))
}

// position returns the position of a point on an axis.
func position(x string, p *curve.Report) int64 {
	if x == "time" {
		return p.Micros
	}
	return p.Step
}

// seen returns the points of a key that readers see in a window, by the definition of hidden points, sorted by position.
func (c *curves) seen(key, x string, from, to int64) []curve.Report {
	last := map[int64]curve.Report{}
	for _, p := range c.of[key] {
		hidden := false
		for attempt, low := range c.hides {
			hidden = hidden || attempt > p.Attempt && p.Step >= low
		}
		if !hidden {
			last[p.Step] = p
		}
	}
	maps.DeleteFunc(last, func(_ int64, p curve.Report) bool { return position(x, &p) < from || position(x, &p) > to })
	return slices.SortedFunc(maps.Values(last), func(a, b curve.Report) int {
		return cmp.Or(cmp.Compare(position(x, &a), position(x, &b)), cmp.Compare(a.Step, b.Step))
	})
}

// axisText returns a position as a request states it, and axisPosition is the opposite.
func axisText(x string, at int64) string {
	if x == "time" {
		return time.UnixMicro(at).UTC().Format(time.RFC3339Nano)
	}
	return strconv.FormatInt(at, 10)
}

func axisPosition(tb testing.TB, x, text string) int64 {
	tb.Helper()
	if x == "time" {
		at, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(tb, err)
		return at.UnixMicro()
	}
	at, err := strconv.ParseInt(text, 10, 64)
	require.NoError(tb, err)
	return at
}

// sameSeries compares a series with the points that it must stand for: all of them if they fit, or else buckets with the
// true extremes of their points.
func sameSeries(tb testing.TB, x string, want []curve.Report, most int, got *ingestv1.Series) {
	tb.Helper()
	require.EqualValues(tb, len(want), got.GetCount())
	require.Zero(tb, got.GetOmitted())
	if len(want) == 0 {
		require.Empty(tb, got.GetPoints())
		require.Empty(tb, got.GetBuckets())
		require.Nil(tb, got.GetFirst())
		return
	}
	samePoint(tb, &want[0], got.GetFirst())
	samePoint(tb, &want[len(want)-1], got.GetLast())
	if len(want) <= most {
		require.Len(tb, got.GetPoints(), len(want), "all points that fit")
		require.Empty(tb, got.GetBuckets())
		for i, p := range got.GetPoints() {
			samePoint(tb, &want[i], p)
		}
		return
	}
	require.Empty(tb, got.GetPoints())
	require.LessOrEqual(tb, len(got.GetBuckets()), most)
	for _, b := range got.GetBuckets() {
		from, to := axisPosition(tb, x, b.GetFrom()), axisPosition(tb, x, b.GetTo())
		n := 0
		for n < len(want) && position(x, &want[n]) <= to {
			require.GreaterOrEqual(tb, position(x, &want[n]), from, "no point is between two buckets")
			n++
		}
		require.Positive(tb, n, "a bucket without points is left out")
		sameBucket(tb, want[:n], b)
		want = want[n:]
	}
	require.Empty(tb, want, "every point is in a bucket")
}

func samePoint(tb testing.TB, want *curve.Report, got *ingestv1.MetricPoint) {
	tb.Helper()
	require.Equal(tb, []any{want.Step, want.Attempt, want.Micros, fmt.Sprint(want.Value)},
		[]any{got.GetStep(), got.GetAttempt(), got.GetTs().AsTime().UnixMicro(), fmt.Sprint(got.GetValue())})
}

func sameBucket(tb testing.TB, points []curve.Report, b *ingestv1.MetricBucket) {
	tb.Helper()
	low, high, sum, odd := math.Inf(1), math.Inf(-1), 0.0, 0
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, p := range points {
		first, last = min(first, p.Step), max(last, p.Step)
		if p.Value-p.Value != 0 {
			odd++
			continue
		}
		low, high, sum = min(low, p.Value), max(high, p.Value), sum+p.Value
	}
	require.EqualValues(tb, []int{len(points), odd}, []int{int(b.GetCount()), int(b.GetNan())})
	require.Equal(tb, []int64{first, last}, []int64{b.GetFirstStep(), b.GetLastStep()})
	require.Equal(tb, fmt.Sprint(points[len(points)-1].Value), fmt.Sprint(b.GetLast()))
	if odd == len(points) {
		require.Nil(tb, b.Min)
		require.Nil(tb, b.Mean)
		return
	}
	require.Equal(tb, []float64{low, high}, []float64{b.GetMin(), b.GetMax()}, "the true extremes")
	require.InDelta(tb, sum/float64(len(points)-odd), b.GetMean(), 1e-9*max(1, math.Abs(low), math.Abs(high)))
}

// Every bucket of a chart has the true extremes and the count of its points, whatever was reported, and wherever the
// points are stored: in the rows of reports, in blocks, or in both.
func TestListSeries_keepsExtremesAndCounts(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(71, 72))
	h := open(t)
	r, pool := h.replica(ingest.Config{}), h.db.Pool(ingest.Name)
	stored := func(table string, run *training) (some bool) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM `+table+` WHERE run_id = $1)`, run.run).Scan(&some))
		return some
	}
	for _, late := range []float64{0, 0.02, 0.4} {
		run, c := r.train(), drawCurves(draw, 3600, late)
		c.report(run, draw)
		for i, most := range []int{5, 6, 7, 10, 16, 33, 50, 100, 150, 333, 800, 2000} {
			switch i {
			case 4:
				_, err := pool.Exec(t.Context(), `UPDATE metric_batch SET created_at = created_at - interval '1 hour'
					WHERE run_id = $1 AND seq < (SELECT batch_seq * 3 / 4 FROM run WHERE id = $1)`, run.run)
				require.NoError(t, err)
				compact(t, pool)
				require.True(t, stored("metric_block", run) && stored("metric_batch", run), "both rows and blocks")
			case 8:
				_, err := r.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: run.run, State: "succeeded"})
				require.NoError(t, err)
				compact(t, pool)
				require.False(t, stored("metric_batch", run), "only blocks")
			}
			for range 2 {
				r.requireSeries(run, c, draw, most)
			}
		}
	}
}

// requireSeries reads a drawn window of a run by its id or by that of its job, and compares it with the reports.
func (r *replica) requireSeries(run *training, c *curves, draw *rand.Rand, most int) {
	t := r.h.t
	t.Helper()
	x := []string{"step", "time"}[draw.IntN(2)]
	in := &ingestv1.ListSeriesRequest{Id: []string{run.run, run.job}[draw.IntN(2)], X: &x, Points: new(int32(most))}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	drawn := func() int64 { return position(x, &c.of["a"][draw.IntN(len(c.of["a"]))]) + int64(draw.IntN(3)-1) }
	if draw.IntN(3) > 0 {
		from = drawn()
		in.From = new(axisText(x, from))
	}
	if draw.IntN(3) > 0 {
		to = max(from, drawn())
		in.To = new(axisText(x, to))
	}
	out, err := r.public.ListSeries(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, out.GetSeries(), 2)
	for i, key := range []string{"a", "b"} {
		require.Equal(t, key, out.GetSeries()[i].GetKey())
		sameSeries(t, x, c.seen(key, x, from, to), most, out.GetSeries()[i])
	}
}

// A chart over another series counts the points that have no place on its axis.
func TestListSeries_statesOmittedPoints(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.report("loss", 0, 1, 2, 3, 4)
	run.post("metrics", "", points(point("tokens", 0, 10), point("tokens", 1, `"NaN"`), point("tokens", 2, `"Infinity"`), point("tokens", 4, 50)))
	read := func(in *ingestv1.ListSeriesRequest) *ingestv1.Series {
		in.Id, in.Keys = run.run, []string{"loss"}
		out, err := r.public.ListSeries(t.Context(), in)
		require.NoError(t, err)
		return out.GetSeries()[0]
	}
	for _, from := range []*string{nil, new("20")} {
		got := read(&ingestv1.ListSeriesRequest{X: new("tokens"), From: from})
		require.EqualValues(t, 3, got.GetOmitted(), "steps 1, 2 and 3, whatever the window is")
		require.Equal(t, map[bool]int64{true: 2, false: 1}[from == nil], got.GetCount())
	}
	require.Len(t, read(&ingestv1.ListSeriesRequest{}).GetPoints(), 5, "all points fit without a number of points")
	got := read(&ingestv1.ListSeriesRequest{X: new("tokens"), Attempt: new("1"), From: new("100")})
	require.EqualValues(t, []int64{0, 3, 1}, []int64{got.GetCount(), got.GetOmitted(), int64(got.GetAttempt())})
	metrics, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, X: new("tokens"), Points: new(int32(5)), Attempt: new("1")})
	require.NoError(t, err)
	require.Nil(t, metrics.GetSeries()[0].Omitted, "the older route keeps its shape")
}

func TestListSeries_hasBuckets(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	var list []string
	for step := range 1001 {
		list = append(list, point("loss", step, step))
	}
	run.post("metrics", "", points(list...))
	out, err := r.public.ListSeries(t.Context(), &ingestv1.ListSeriesRequest{Id: run.run, From: new("1")})
	require.NoError(t, err)
	require.Len(t, out.GetSeries()[0].GetPoints(), 1000, "the default")
	out, err = r.public.ListSeries(t.Context(), &ingestv1.ListSeriesRequest{Id: run.run})
	require.NoError(t, err)
	require.NotEmpty(t, out.GetSeries()[0].GetBuckets())
	for _, in := range []*ingestv1.ListSeriesRequest{{Points: new(int32(4))}, {From: new("2"), To: new("1")}, {X: new("time"), From: new("2")}, {Attempt: new("0")}} {
		in.Id = run.run
		_, err = r.public.ListSeries(t.Context(), in)
		require.True(t, fault.Is(err, fault.Invalid), "%v: %v", in, err)
	}
}
