package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// Protecting a dataset also protects its unfinished runs, because their messages may still contain records.
func TestProtectRuns_unfinishedRunsOfDataset(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	on := func(ref string) func(*jobsv1.SubmitJobRequest) {
		return func(r *jobsv1.SubmitJobRequest) { r.Spec.Bindings.Datasets["train"] = ref }
	}
	ended := w.submit(on("ds/default/pairs@1"))
	w.fail(a, ended, "", "printed before")
	running := w.submit(on("ds/default/pairs@latest"))
	other := w.submit(on("ds/default/pairs-too@1"))
	registry := jobspeerv1.NewRunPeerServiceClient(w.dial("registry"))
	for _, want := range []int32{1, 0} {
		got, err := registry.ProtectRuns(t.Context(), &jobspeerv1.ProtectRunsRequest{DatasetId: "dst_1", Ref: "ds/default/pairs"})
		require.NoError(t, err)
		require.Equal(t, want, got.GetRuns())
	}
	for j, protected := range map[*jobsv1.Job]bool{ended: false, running: true, other: false} {
		owner, err := w.runPeer().GetRunOwner(t.Context(), &jobspeerv1.GetRunOwnerRequest{Id: j.GetId()})
		require.NoError(t, err)
		require.Equal(t, protected, owner.GetProtected())
		if protected {
			require.Equal(t, []string{"dst_1"}, owner.GetProtectedDatasets())
		}
	}
	w.fail(a, running, "planted", "planted")
	require.NotContains(t, w.get(running.GetId()).GetMessage(), "planted")
}
