package read

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

func TestJoinSeries_ofOneAttempt(t *testing.T) {
	t.Parallel()
	loss := []metric.Seen{{Step: 1, Value: 3, Attempt: 1}, {Step: 2, Value: 2, Attempt: 1}}
	tokens := []metric.Seen{{Step: 1, Value: 10, Attempt: 1}, {Step: 2, Value: 40, Attempt: 2}}
	joined, omitted := joinSeries(loss, tokens, math.Inf(-1), math.Inf(1))
	require.Equal(t, []pair{{10, loss[0]}}, joined)
	require.EqualValues(t, 1, omitted)
}

// Every point whose step also has a finite x within the window is in exactly one bucket, and buckets do not overlap.
func TestJoinedProto_matchesDefinition(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(61, 62))
	for range 60 {
		var points, over []metric.Seen
		at := map[int64]float64{}
		for step := range int64(200) {
			if draw.IntN(3) > 0 {
				points = append(points, metric.Seen{Step: step, Value: []float64{draw.NormFloat64(), math.NaN(), math.Inf(1)}[draw.IntN(9)/7]})
			}
			if draw.IntN(3) > 0 {
				x := []float64{math.Round(draw.NormFloat64() * 10), draw.NormFloat64() * 1e300, math.Inf(-1), math.NaN()}[draw.IntN(12)/9*(1+draw.IntN(3))]
				over = append(over, metric.Seen{Step: step, Value: x})
				at[step] = x
			}
		}
		from, to := math.Inf(-1), math.Inf(1)
		if draw.IntN(2) == 0 {
			from, to = -10, 10
		}
		var want []metric.Seen
		without := 0
		for _, p := range points {
			x, ok := at[p.Step]
			switch {
			case !ok || x-x != 0:
				without++
			case x >= from && x <= to:
				want = append(want, p)
			}
		}
		joined, omitted := joinSeries(points, over, from, to)
		require.EqualValues(t, without, omitted)
		sameJoined(t, want, at, joinedProto(&metric.Series{Key: "loss"}, joined, 5+draw.IntN(60)))
	}
}

func sameJoined(t *testing.T, want []metric.Seen, at map[int64]float64, got *ingestv1.MetricSeries) {
	t.Helper()
	require.Empty(t, got.GetPoints())
	require.EqualValues(t, len(want), got.GetCount())
	total, above := 0, math.Inf(-1)
	for _, b := range got.GetBuckets() {
		low, err := strconv.ParseFloat(b.GetFrom(), 64)
		require.NoError(t, err)
		high, err := strconv.ParseFloat(b.GetTo(), 64)
		require.NoError(t, err)
		require.True(t, low > above && high >= low, "buckets are in order")
		above = high
		var values []float64
		count, odd, steps := 0, 0, []int64{}
		for _, p := range want {
			if x := at[p.Step]; x < low || x > high {
				continue
			}
			count++
			steps = append(steps, p.Step)
			if p.Value-p.Value != 0 {
				odd++
			} else {
				values = append(values, p.Value)
			}
		}
		total += count
		require.EqualValues(t, []int{count, odd}, []int{int(b.GetCount()), int(b.GetNan())})
		require.Equal(t, []int64{slices.Min(steps), slices.Max(steps)}, []int64{b.GetFirstStep(), b.GetLastStep()})
		if len(values) > 0 {
			require.Equal(t, []float64{slices.Min(values), slices.Max(values)}, []float64{b.GetMin(), b.GetMax()})
		} else {
			require.Nil(t, b.Mean)
		}
	}
	require.Equal(t, len(want), total, "every point is in a bucket")
}

func TestValuesOf_rejectsWrongWindows(t *testing.T) {
	t.Parallel()
	points := int32(5)
	for want, in := range map[string]*ingestv1.ListMetricsRequest{
		"x requires points":             {X: new("lr")},
		"from requires points":          {X: new("lr"), From: new("1")},
		"to is not a decimal number":    {X: new("lr"), To: new("2026-11-21T09:00:00Z"), Points: &points},
		"from is not a decimal number":  {X: new("lr"), From: new("NaN"), Points: &points},
		"to must not be less than from": {X: new("lr"), From: new("0.2"), To: new("0.1"), Points: &points},
	} {
		_, _, err := valuesOf(in)
		require.True(t, fault.Is(err, fault.Invalid), want)
		require.ErrorContains(t, err, want)
	}
	for _, text := range []string{"0x1p3", "1_000", "inf", "-Infinity", "1e400", " 1"} {
		_, _, err := valuesOf(&ingestv1.ListMetricsRequest{X: new("lr"), To: &text, Points: &points})
		require.ErrorContains(t, err, "to is not a decimal number", text)
	}
	low, high, err := valuesOf(&ingestv1.ListMetricsRequest{X: new("lr"), From: new("-1e+20"), To: new("+.5E-3"), Points: &points})
	require.NoError(t, err)
	require.Equal(t, []float64{-1e20, 0.0005}, []float64{low, high})
}
