package read

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// The buckets of all series have the same bounds, on both axes.
func TestCompareServer_alignsSeries(t *testing.T) {
	t.Parallel()
	c := openCompared(t, 3)
	c.series(0, "loss", 1, 100, 1)
	c.series(1, "loss", 51, 250, 2)
	c.series(2, "acc", 1, 3, 1)
	c.series(2, "loss", 7, 9, 1)
	ids := []string{compareRun(2), compareRun(0), compareRun(1)}
	out := c.compare(&ingestv1.CompareRunsRequest{RunIds: ids, Points: new(int32(25))})
	require.Len(t, out.GetMetrics(), 2)
	require.Equal(t, "acc", out.GetMetrics()[0].GetKey())
	loss := out.GetMetrics()[1]
	require.Len(t, loss.GetRuns(), 3)
	for i, one := range loss.GetRuns() {
		require.Equal(t, ids[i], one.GetRunId(), "the order is that of the runs")
	}
	require.Len(t, loss.GetRuns()[0].GetSeries().GetPoints(), 3, "few points are not summarized")
	first, second := loss.GetRuns()[1], loss.GetRuns()[2]
	require.EqualValues(t, 100, first.GetSummary().GetLatest().GetStep())
	require.InDelta(t, 500, second.GetSummary().GetMax().GetValue(), 0)
	require.Len(t, first.GetSeries().GetBuckets(), 10, "steps 1 to 100 of 1 to 250, in 25 buckets")
	require.Len(t, second.GetSeries().GetBuckets(), 20)
	bounds := map[string]string{}
	for _, b := range slices.Concat(first.GetSeries().GetBuckets(), second.GetSeries().GetBuckets()) {
		require.Contains(t, []string{"", b.GetTo()}, bounds[b.GetFrom()])
		bounds[b.GetFrom()] = b.GetTo()
		from, err := strconv.Atoi(b.GetFrom())
		require.NoError(t, err)
		require.Zero(t, (from-1)%10)
	}
	require.Len(t, bounds, 25)

	timed := c.compare(&ingestv1.CompareRunsRequest{RunIds: ids[1:], Keys: []string{"loss"}, Points: new(int32(4)), X: new("time")})
	buckets := timed.GetMetrics()[0].GetRuns()[0].GetSeries().GetBuckets()
	require.Len(t, buckets, 1, "all points of the first run are in the first quarter of both")
	require.EqualValues(t, 100, buckets[0].GetCount())
	require.Nil(t, c.compare(&ingestv1.CompareRunsRequest{RunIds: ids}).GetMetrics()[0].GetRuns()[0].GetSeries())
}

// A band is the mean, the lowest and the highest value over the runs, for runs with buckets and runs with points.
func TestCompareServer_bands(t *testing.T) {
	t.Parallel()
	c := openCompared(t, 3)
	c.series(0, "loss", 1, 100, 1)
	c.series(1, "loss", 1, 100, 3)
	c.series(2, "loss", 1, 2, 10)
	in := &ingestv1.CompareRunsRequest{RunIds: []string{compareRun(0), compareRun(1), compareRun(2)}, Points: new(int32(10)), Bands: true}
	band := c.compare(in).GetMetrics()[0].GetBand()
	require.Len(t, band, 10)
	require.Equal(t, "1", band[0].GetFrom())
	require.Equal(t, "10", band[0].GetTo())
	require.EqualValues(t, 3, band[0].GetRuns())
	require.InDelta(t, (5.5+16.5+15)/3, band[0].GetMean(), 1e-9)
	require.InDelta(t, 1, band[0].GetMin(), 0)
	require.InDelta(t, 30, band[0].GetMax(), 0)
	require.EqualValues(t, 2, band[9].GetRuns())
	require.InDelta(t, 191, band[9].GetMean(), 1e-9)
	in.Points = nil
	_, err := c.server.CompareRuns(reader(t.Context()), in)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

// The largest comparison fits into a gRPC message.
func TestCompareServer_isBounded(t *testing.T) {
	t.Parallel()
	const runs = 100
	c := openCompared(t, runs)
	ids := make([]string, runs)
	long := []byte(`"` + strings.Repeat("é", 5000) + `"`)
	for n := range runs {
		ids[n] = compareRun(n)
		for k := range 3 {
			c.series(n%9, "m"+strconv.Itoa(k), n*30, n*30+300, 1)
		}
		var samples []report.Sample
		for i := range 25 {
			samples = append(samples, report.Sample{User: append([]byte(`"`+strconv.Itoa(i)), long[1:]...), Assistant: long})
		}
		c.validate(n, 3, samples...)
		c.params(n, "p", string(long), "q", strconv.Itoa(n))
	}
	out := c.compare(&ingestv1.CompareRunsRequest{RunIds: ids, Points: new(int32(5000)), Prompts: new(int32(20)), Bands: true})
	require.Len(t, out.GetPrompts(), 20)
	require.Len(t, out.GetPrompts()[0].GetSamples(), runs)
	require.Less(t, proto.Size(out), 4<<20)
	points := 0
	for _, m := range out.GetMetrics() {
		for _, one := range m.GetRuns() {
			points += len(one.GetSeries().GetPoints()) + len(one.GetSeries().GetBuckets())
		}
	}
	require.LessOrEqual(t, points, 10_000)
	require.Greater(t, points, 2000)
}

func TestCompareServer_prompts(t *testing.T) {
	t.Parallel()
	c := openCompared(t, 3)
	c.validate(0, 1, report.Sample{User: []byte(`"old"`)}, report.Sample{User: []byte(`"a"`)})
	c.validate(0, 2, report.Sample{User: []byte(`"a"`), Assistant: []byte(`"one"`), Reward: new(0.5)}, report.Sample{User: []byte(`"b"`)}, report.Sample{User: []byte(`"a"`)})
	c.validate(1, 7, report.Sample{User: []byte(`["x"]`)}, report.Sample{User: []byte(`"a"`), Assistant: []byte(`["t"]`)}, report.Sample{})
	c.validate(2, 7, report.Sample{User: []byte(`["x"]`), Assistant: []byte(`"` + strings.Repeat(`\u00e9`, 3000) + `"`)}, report.Sample{})
	ids := []string{compareRun(0), compareRun(1), compareRun(2)}
	got := c.compare(&ingestv1.CompareRunsRequest{RunIds: ids, Prompts: new(int32(5))}).GetPrompts()
	require.Len(t, got, 2, "a prompt of one run is not compared, and a sample without a prompt is left out")
	require.Equal(t, "a", got[0].GetPrompt())
	require.Equal(t, "one", got[0].GetSamples()[0].GetAssistant())
	require.InDelta(t, 0.5, got[0].GetSamples()[0].GetReward(), 0)
	require.EqualValues(t, 2, got[0].GetSamples()[0].GetStep(), "the last round counts")
	require.Equal(t, `["t"]`, got[0].GetSamples()[1].GetAssistant())
	require.Nil(t, got[1].GetSamples()[0].Assistant)
	require.Equal(t, `["x"]`, got[1].GetPrompt())
	require.Regexp(t, `^é{1000}é{1000}…$`, got[1].GetSamples()[1].GetAssistant())
	got = c.compare(&ingestv1.CompareRunsRequest{RunIds: ids[:1], Prompts: new(int32(1)), Step: new(int64(1))}).GetPrompts()
	require.Len(t, got, 1)
	require.Equal(t, "old", got[0].GetPrompt(), "the prompts of a single run are shown")
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"a"`: "a", `"ab`: "ab…", `"a\`: "a…", `"a\u00`: "a…", `"a\ud83d\ude0`: "a…", `[1]`: "[1]", `[1`: "[1…", `"abcdefg"`: "abcde…", ``: "…", `"`: "…",
	} {
		got, truncated := plain([]byte(in), 5)
		require.Equal(t, want, got, in)
		require.Equal(t, strings.HasSuffix(want, cut), truncated, in)
	}
	got, _ := plain([]byte(`"\ud83d\ude00"`), math.MaxInt)
	require.Equal(t, "\U0001f600", got)
}
