package ingest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// The jobs service continues its copies of summaries with what runs have reported since.
func TestSummarizeRuns(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	one, other := r.train(), r.train()
	one.report("loss", 1, 2)
	other.report("loss", 1)
	known := []*ingestpeerv1.SummarizedRun{{RunId: one.run}, {RunId: other.run}}
	for _, k := range known {
		out, err := r.peer.SummarizeRuns(t.Context(), &ingestpeerv1.SummarizeRunsRequest{Runs: []*ingestpeerv1.SummarizedRun{k}})
		require.NoError(t, err)
		require.True(t, out.GetRuns()[0].GetWhole(), "there is no copy yet")
		whole, err := r.peer.SummarizeRun(t.Context(), &ingestpeerv1.SummarizeRunRequest{RunId: k.GetRunId()})
		require.NoError(t, err)
		require.EqualValues(t, whole.GetMetrics()[0].GetLast(), whole.GetMetrics()[0].GetLastStep(), "the value of a point is its step")
		k.Rows, k.Shown = whole.GetRows(), whole.GetShown()
	}
	one.report("loss", 3, 4)
	out, err := r.peer.SummarizeRuns(t.Context(), &ingestpeerv1.SummarizeRunsRequest{Runs: known})
	require.NoError(t, err)
	require.Len(t, out.GetRuns(), 1, "the other run has reported nothing")
	d := out.GetRuns()[0]
	require.Equal(t, []any{one.run, false, known[0].GetRows() + 1, known[0].GetShown()}, []any{d.GetRunId(), d.GetWhole(), d.GetRows(), d.GetShown()})
	require.True(t, proto.Equal(&ingestpeerv1.MetricDelta{Key: "loss", FirstStep: 3, LastStep: 4, Last: 4, Min: new(3.0), Max: new(4.0)}, d.GetMetrics()[0]), "%v", d)
	one.resumed(2, 3)
	one.report("loss", 4)
	out, err = r.peer.SummarizeRuns(t.Context(), &ingestpeerv1.SummarizeRunsRequest{Runs: known})
	require.NoError(t, err)
	require.True(t, out.GetRuns()[0].GetWhole(), "a newer attempt hides points")
	_, err = r.registry.SummarizeRuns(t.Context(), &ingestpeerv1.SummarizeRunsRequest{Runs: known})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
}
