package ingest_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// The reports of a run that reads a protected dataset may contain records of the dataset, so the content of each sample
// is removed.
func TestValidation_protectedDatasetKeepsLengthsAndRewards(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.grant.Withhold = true
	run.post("validation", "", `"step":3,"samples":[{"user":"sécret","assistant":["secret"],"env":null,"reward":1,"extra":{"x":"secret"}}]`)
	got, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run})
	require.NoError(t, err)
	s := got.GetSamples()[0]
	require.Empty(t, s.GetUser())
	require.Empty(t, s.GetAssistant())
	require.Empty(t, s.GetEnv())
	require.InDelta(t, 1, s.GetReward(), 0)
	require.JSONEq(t, `{"withheld":{"user":6,"assistant":10,"env":null}}`, string(s.GetExtra()))
}

// The jobs service reads run data for share links, whose readers are not signed in. No other service may do so.
func TestPeer_jobsReadsSharedRunData(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run, empty := r.train(), r.train()
	run.post("metrics", "", `"points":[{"key":"a","step":1,"value":1,"ts":"2026-11-21T03:00:00+00:00"},`+
		`{"key":"b","step":1,"value":"NaN","ts":"2026-11-21T03:00:00+00:00"}]`)
	run.post("hparams", "", `"params":{"lr":0.1}`)
	run.post("validation", "", `"step":3,"samples":[{"user":"u","assistant":"a","env":"e","reward":1,"extra":{"x":1}},{"user":"v","assistant":"b"}]`)

	metrics := func(runID string, limit, offset int32, keys ...string) *ingestpeerv1.GetRunMetricsResponse {
		got, err := r.peer.GetRunMetrics(t.Context(), &ingestpeerv1.GetRunMetricsRequest{RunId: runID, Limit: limit, Offset: offset, Keys: keys})
		require.NoError(t, err)
		return got
	}
	first := metrics(run.run, 1, 0)
	require.Equal(t, "a", first.GetSeries()[0].GetKey())
	require.True(t, first.GetMore())
	require.Equal(t, "b", metrics(run.run, 1, 1).GetSeries()[0].GetKey())
	require.Equal(t, "b", metrics(run.run, 5, 0, "b").GetSeries()[0].GetKey())
	require.Empty(t, metrics(empty.run, 5, 0).GetSeries())

	params, err := r.peer.GetRunHparams(t.Context(), &ingestpeerv1.GetRunHparamsRequest{RunId: run.run})
	require.NoError(t, err)
	require.JSONEq(t, `{"lr":0.1}`, string(params.GetParams()))
	params, err = r.peer.GetRunHparams(t.Context(), &ingestpeerv1.GetRunHparamsRequest{RunId: empty.run})
	require.NoError(t, err)
	require.JSONEq(t, `{}`, string(params.GetParams()))

	summary, err := r.peer.SummarizeRun(t.Context(), &ingestpeerv1.SummarizeRunRequest{RunId: run.run})
	require.NoError(t, err)
	require.Positive(t, summary.GetPosition())
	require.JSONEq(t, `{"lr":0.1}`, string(summary.GetParams()))
	require.Len(t, summary.GetMetrics(), 2)
	require.InDelta(t, 1, summary.GetMetrics()[0].GetMax(), 0)
	require.True(t, math.IsNaN(summary.GetMetrics()[1].GetLast()))
	require.Nil(t, summary.GetMetrics()[1].Min, "NaN does not count as the lowest value")
	require.False(t, summary.GetClosed() || summary.GetMore())
	require.True(t, summary.GetResumeSteps())
	summary, err = r.peer.SummarizeRun(t.Context(), &ingestpeerv1.SummarizeRunRequest{RunId: run.run, Position: summary.GetPosition()})
	require.NoError(t, err)
	require.Empty(t, summary.GetMetrics(), "nothing was reported since")
	_, err = r.registry.SummarizeRun(t.Context(), &ingestpeerv1.SummarizeRunRequest{RunId: run.run})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)

	samples, err := r.peer.GetRunSamples(t.Context(), &ingestpeerv1.GetRunSamplesRequest{RunId: run.run, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, `"u"`, string(samples.GetSamples()[0].GetUser()))
	require.True(t, samples.GetMore())
	step := int64(4)
	samples, err = r.peer.GetRunSamples(t.Context(), &ingestpeerv1.GetRunSamplesRequest{RunId: run.run, Step: &step, Limit: 1})
	require.NoError(t, err)
	require.Empty(t, samples.GetSamples())

	_, err = r.peer.GetRunMetrics(t.Context(), &ingestpeerv1.GetRunMetricsRequest{RunId: run.run})
	require.True(t, fault.Is(err, fault.Invalid), "a page needs a limit: %v", err)
	_, err = r.registry.GetRunSamples(t.Context(), &ingestpeerv1.GetRunSamplesRequest{RunId: run.run, Limit: 1})
	require.Error(t, err, "only the jobs service may read run data without a user")
}
