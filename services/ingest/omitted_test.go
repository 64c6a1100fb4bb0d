package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// A response with fewer points than were reported states how many it has left out.
func TestListMetrics_statesOmittedPoints(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	for n := range 10 {
		var list []string
		for i := range 10_000 {
			list = append(list, point("long", n*10_000+i, i%7))
		}
		run.post("metrics", "", points(list...))
	}
	run.report("short", 1, 2)
	for _, keys := range [][]string{{"long"}, {"short"}, {"long", "short"}} {
		out, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Keys: keys})
		require.NoError(t, err)
		for _, s := range out.GetSeries() {
			all := map[string]int64{"long": 100_000, "short": 2}[s.GetKey()]
			require.NotNil(t, s.Omitted)
			require.Equal(t, all, int64(len(s.GetPoints()))+s.GetOmitted(), "%v %s", keys, s.GetKey())
			require.Equal(t, s.GetKey() == "long", s.GetOmitted() > 0)
		}
	}
	out, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Keys: []string{"long"}, Points: new(int32(100))})
	require.NoError(t, err)
	require.Nil(t, out.GetSeries()[0].Omitted, "the buckets of a chart stand for all points")
	require.EqualValues(t, 100_000, out.GetSeries()[0].GetCount())
}

func TestListHardware_statesOmittedSamples(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	var list []string
	for i := range 5000 {
		list = append(list, fmt.Sprintf(`{"ts":"2026-11-21T%02d:%02d:%02dZ","node":"n","key":"cpu","value":%d}`, i/3600, i/60%60, i%60, i%9))
	}
	run.post("hardware", "", `"points":[`+strings.Join(list, ",")+`]`)
	for points, omitted := range map[int32]bool{500: true, 5000: false} {
		out, err := r.public.ListHardware(t.Context(), &ingestv1.ListHardwareRequest{Id: run.run, Points: &points})
		require.NoError(t, err)
		s := out.GetSeries()[0]
		require.EqualValues(t, 5000, int64(len(s.GetPoints()))+s.GetOmitted())
		require.Equal(t, omitted, s.GetOmitted() > 0)
	}
}

// A part of a long sample is marked, and the rest can be read.
func TestListSamples_longTextInParts(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	long := strings.Repeat("模型", 1_000_000)
	run.post("validation", "", `"step":3,"samples":[{"user":"`+strings.Repeat("x", 4_000_000)+`"}]`)
	run.post("validation", "", `"step":4,"samples":[{"user":"q"},{"user":"`+long+`"}]`)
	one, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run, Step: new(int64(3)), Limit: new(int32(1))})
	require.NoError(t, err)
	require.Len(t, one.GetSamples()[0].GetUser(), 4_000_002, "the whole text")
	require.False(t, one.GetSamples()[0].GetTruncated())
	page, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run})
	require.NoError(t, err)
	require.False(t, page.GetSamples()[0].GetTruncated())
	s := page.GetSamples()[1]
	require.True(t, s.GetTruncated())
	var text strings.Builder
	for {
		text.WriteString(strings.TrimSuffix(strings.Trim(string(s.GetUser()), `"`), "…"))
		if !s.GetTruncated() {
			break
		}
		rest, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run, Sample: new(s.GetId()), TextFrom: s.TextNext})
		require.NoError(t, err)
		require.Len(t, rest.GetSamples(), 1)
		s = rest.GetSamples()[0]
	}
	require.True(t, text.String() == long)
	_, err = r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run, Sample: new("x")})
	require.Error(t, err)
}
