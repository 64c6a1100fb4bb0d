package read

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

func TestWindowOf_readsBothAxes(t *testing.T) {
	t.Parallel()
	points := int32(5)
	at := time.Date(2026, 11, 21, 9, 0, 0, 1000, time.UTC).UnixMicro()
	for _, c := range []struct {
		x, from, to string
		want        metric.Window
	}{
		{"", "", "", metric.All(metric.Steps)},
		{"step", "-5", "9223372036854775807", metric.Window{Axis: metric.Steps, From: -5, To: math.MaxInt64}},
		{"time", "", "", metric.All(metric.Times)},
		{"time", "2026-11-21T09:00:00.000001Z", "2026-11-21T10:00:00.000001+01:00", metric.Window{Axis: metric.Times, From: at, To: at}},
		{"time", "2026-11-21 05:30:00.000001-0330", "2026-11-21 09:00:00.000001+00:00", metric.Window{Axis: metric.Times, From: at, To: at}},
		{"time", "2026-11-21T09:00:00.0000001Z", "2026-11-21T09:00:00.0000019Z", metric.Window{Axis: metric.Times, From: at, To: at}},
	} {
		in := &ingestv1.ListMetricsRequest{Points: &points}
		for text, field := range map[*string]**string{&c.x: &in.X, &c.from: &in.From, &c.to: &in.To} {
			if *text != "" {
				*field = text
			}
		}
		got, err := windowOf(in)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		for _, x := range []int64{got.From, got.To} {
			if c.from == "" {
				break
			}
			again, ok := position(positionText(x, got.Axis), got.Axis, true)
			require.True(t, ok)
			require.Equal(t, x, again, "a position in a response can be sent in a request")
		}
	}
}

func TestWindowOf_rejectsWrongParameters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		points, x, from, to string
		want                string
	}{
		"x without points":    {"", "step", "", "", "x requires points"},
		"from without points": {"", "", "1", "", "from requires points"},
		"to without points":   {"", "", "", "1", "to requires points"},
		"step out of range":   {"5", "", "", "9223372036854775808", "to is not a step"},
		"time as a step":      {"5", "step", "2026-11-21T09:00:00Z", "", "from is not a step"},
		"step as a time":      {"5", "time", "1", "", "from is not an RFC 3339 time"},
		"reversed":            {"5", "", "2", "1", "to must not be less than from"},
	} {
		in, points := &ingestv1.ListMetricsRequest{}, int32(5)
		if c.points != "" {
			in.Points = &points
		}
		for text, field := range map[*string]**string{&c.x: &in.X, &c.from: &in.From, &c.to: &in.To} {
			if *text != "" {
				*field = text
			}
		}
		_, err := windowOf(in)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		require.ErrorContains(t, err, c.want, name)
	}
}

// The largest response has the longest keys and the longest values in every field.
func TestChartProto_largestPageFitsMessage(t *testing.T) {
	t.Parallel()
	for _, series := range []int{1, 12, 500} {
		most := min(2000, metric.MaxBuckets/series)
		low, late := metric.Seen{Step: math.MinInt64, Value: -1, Micros: math.MaxInt32, Attempt: math.MaxInt32}, time.Now().UnixMicro()
		stats := metric.Stats{Count: math.MaxInt64, Odd: math.MaxInt64 - 1, First: low, Last: low, Low: low, High: low, FirstStep: math.MinInt64, LastStep: math.MinInt64}
		chart := metric.Chart{Key: strings.Repeat("k", 1024), Stats: stats}
		for range most {
			chart.Buckets = append(chart.Buckets, metric.Bucket{From: late, To: late, Stats: stats})
		}
		out := &ingestv1.ListMetricsResponse{}
		for range series {
			out.Series = append(out.Series, chartProto(&chart, metric.Times))
		}
		require.Less(t, proto.Size(out), mostMessage, "%d series", series)
		chart.Buckets = nil
		for range most {
			chart.Points = append(chart.Points, low)
		}
		points := &ingestv1.ListMetricsResponse{}
		for range series {
			points.Series = append(points.Series, chartProto(&chart, metric.Times))
		}
		require.Less(t, proto.Size(points), mostMessage, "%d series", series)
	}
}

func TestChartProto_bucketWithoutNumbers(t *testing.T) {
	t.Parallel()
	odd := metric.Stats{Count: 2, Odd: 2, Last: metric.Seen{Value: math.Inf(-1)}}
	got := chartProto(&metric.Chart{Key: "a", Stats: odd, Buckets: []metric.Bucket{{From: 1, To: 2, Stats: odd}}}, metric.Steps).GetBuckets()[0]
	require.Nil(t, got.Min)
	require.Nil(t, got.Max)
	require.Nil(t, got.Mean)
	require.Equal(t, []any{"1", "2", int64(2), int64(2)}, []any{got.GetFrom(), got.GetTo(), got.GetCount(), got.GetNan()})
	require.True(t, math.IsInf(got.GetLast(), -1))
}

func TestServer_ListMetrics_seriesWithoutPoints(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.put(metric.Write(metric.NewKeys(), point("a")))
	owner := authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator})
	points, from := int32(5), "2"
	out, err := b.server.ListMetrics(owner, &ingestv1.ListMetricsRequest{Id: runID, Points: &points, From: &from})
	require.NoError(t, err)
	got := out.GetSeries()[0]
	require.Zero(t, got.GetCount())
	require.NotNil(t, got.Count)
	require.Nil(t, got.GetFirst(), "a window without points has no first point")
	out, err = b.server.ListMetrics(owner, &ingestv1.ListMetricsRequest{Id: runID, Points: &points})
	require.NoError(t, err)
	require.EqualValues(t, 1, out.GetSeries()[0].GetCount())
	require.Len(t, out.GetSeries()[0].GetPoints(), 1)
	out, err = b.server.ListMetrics(owner, &ingestv1.ListMetricsRequest{Id: runID})
	require.NoError(t, err)
	require.Nil(t, out.GetSeries()[0].Count)
}

func TestServer_ListMetricSummaries_pagesByKey(t *testing.T) {
	t.Parallel()
	b := open(t)
	keys := metric.NewKeys()
	for _, key := range []string{"b", "a", "c"} {
		b.put(metric.Write(keys, point(key)))
	}
	owner := authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator})
	for offset, key := range []string{"a", "b", "c"} {
		limit := int32(3 - offset) // no page follows, because the header for it needs a call
		out, err := b.server.ListMetricSummaries(owner, &ingestv1.ListMetricSummariesRequest{Id: runID, Limit: &limit, Offset: new(int32(offset))})
		require.NoError(t, err)
		require.Len(t, out.GetSummaries(), int(limit))
		got := out.GetSummaries()[0]
		require.Equal(t, key, got.GetKey())
		require.EqualValues(t, 1, got.GetCount())
		for _, p := range []*ingestv1.MetricPoint{got.GetLatest(), got.GetMin(), got.GetMax()} {
			require.EqualValues(t, 1, p.GetStep())
		}
	}
	_, err := b.pool.Exec(t.Context(), `DELETE FROM metric_batch`)
	require.NoError(t, err)
	out, err := b.server.ListMetricSummaries(owner, &ingestv1.ListMetricSummariesRequest{Id: runID, Keys: []string{"a"}})
	require.NoError(t, err)
	require.Nil(t, out.GetSummaries()[0].GetLatest(), "a key without points has no latest point")
	_, err = b.server.ListMetricSummaries(owner, &ingestv1.ListMetricSummariesRequest{Id: "run_01k00000000000000000000009"})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestSummaryProto_onlyNaN(t *testing.T) {
	t.Parallel()
	got := summaryProto(&metric.Chart{Key: "a", Stats: metric.Stats{Count: 3, Odd: 3, Last: metric.Seen{Step: 7, Value: math.NaN()}}}, run.Goals{"a": "minimize"})
	require.Equal(t, []int64{3, 3, 7}, []int64{got.GetCount(), got.GetNan(), got.GetLatest().GetStep()})
	require.Nil(t, got.GetMin())
	require.Nil(t, got.GetMax())
	require.Nil(t, got.GetBest())
}

// The best point of a series is its lowest or highest one, as the recipe of the run states.
func TestServer_ListMetricSummaries_best(t *testing.T) {
	t.Parallel()
	c := openCompared(t, 2)
	owner := &run.Owner{
		RunID: compareRun(0), OwnerID: "usr_1", ProjectID: "prj_1", Visibility: "private",
		Goals: run.Goals{"a": "minimize", "b": "maximize", "odd": "?"},
	}
	require.NoError(t, c.rows.Upsert(t.Context(), owner))
	owner.Goals = nil // from an earlier version of the jobs service
	require.NoError(t, c.rows.Upsert(t.Context(), owner))
	for n := range 2 {
		for _, key := range []string{"a", "b", "c", "odd"} {
			c.series(n, key, 1, 3, -1)
		}
	}
	best := func(s *ingestv1.MetricSummary) string {
		if s.GetBest() == nil {
			return s.GetKey()
		}
		return fmt.Sprint(s.GetKey(), " ", s.GetBest().GetValue(), " at ", s.GetBest().GetStep())
	}
	var got []string
	for n := range 2 {
		out, err := c.harness.server.ListMetricSummaries(reader(t.Context()), &ingestv1.ListMetricSummariesRequest{Id: compareRun(n)})
		require.NoError(t, err)
		for _, s := range out.GetSummaries() {
			got = append(got, best(s))
		}
	}
	require.Equal(t, []string{"a -3 at 3", "b -1 at 1", "c", "odd", "a", "b", "c", "odd"}, got)
	got = nil
	for _, m := range c.compare(&ingestv1.CompareRunsRequest{RunIds: []string{compareRun(0), compareRun(1)}}).GetMetrics() {
		for _, one := range m.GetRuns() {
			got = append(got, best(one.GetSummary()))
		}
	}
	require.Equal(t, []string{"a -3 at 3", "a", "b -1 at 1", "b", "c", "c", "odd", "odd"}, got)
}
