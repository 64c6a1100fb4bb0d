package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func noNetwork(r *jobsv1.SubmitJobRequest) { r.Spec.Network = "none" }

func TestClosedJob_nodes(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	problem := "the program pasta is not in PATH"
	open := w.join(fleet, cpuNode(), reports(&jobsv1.NodeBoundary{Kind: "user_namespace", Required: true, NetworkProblem: &problem}))
	require.False(t, w.awaitNode(open.nodeID, "ready").GetBoundary().GetClosesNetwork())
	_, err := w.jobs().SubmitJob(w.as(alice()), w.request(noNetwork))
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "isolation"), "%v", err)
	require.ErrorContains(t, err, "no suitable node that can run a job without network access")
	require.Zero(t, w.count("job"))

	closing := w.join(fleet, cpuNode(), reports(&jobsv1.NodeBoundary{Kind: "own_user", Required: true, ClosesNetwork: true}))
	require.True(t, w.awaitNode(closing.nodeID, "ready").GetBoundary().GetClosesNetwork())
	first := w.submit(noNetwork)
	spec := closing.attempt().GetAttempt()
	require.Equal(t, first.GetId(), spec.GetJobId())
	require.True(t, spec.GetNoNetwork())
	require.Equal(t, 1, w.count(`job WHERE no_network`))

	_, err = w.cluster().CordonNode(w.as(admin()), &jobsv1.CordonNodeRequest{NodeId: closing.nodeID})
	require.NoError(t, err)
	waiting, others := w.submit(noNetwork), w.submit()
	require.False(t, open.attempt().GetAttempt().GetNoNetwork())
	require.Eventually(t, func() bool { return w.get(waiting.GetId()).GetQueue().GetReason() == "isolation" }, patience, 10*time.Millisecond)
	require.Contains(t, w.get(waiting.GetId()).GetQueue().GetReasonDetail(), "too few nodes that can run a job without network access")
	require.NotEqual(t, "isolation", w.get(others.GetId()).GetQueue().GetReason())
}

// Between the placement and the start of an attempt, the node's agent may be replaced by an earlier version, which
// would give the attempt a network.
func TestClosedJob_nodeLosesTheAbility(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode(), reports(&jobsv1.NodeBoundary{Kind: "own_user", Required: true, ClosesNetwork: true}))
	w.awaitNode(a.nodeID, "ready")
	w.submit(noNetwork)
	work := a.attempt()
	mint := func() error {
		_, err := a.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{
			WorkId: work.GetWorkId(), Generation: work.GetGeneration(), Fence: work.GetFence(),
		})
		return err
	}
	a.cancel()
	a.boundary = &jobsv1.NodeBoundary{Kind: "own_user", Required: true}
	a.connect()
	require.Eventually(t, func() bool { return w.count(`node WHERE boundary->>'closes_network' IS NULL`) == 1 }, patience, 10*time.Millisecond)
	err := mint()
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "isolation"), "%v", err)
	a.cancel()
	a.boundary = &jobsv1.NodeBoundary{Kind: "own_user", Required: true, ClosesNetwork: true}
	a.connect()
	require.Eventually(t, func() bool { return w.count(`node WHERE boundary->>'closes_network' = 'true'`) == 1 }, patience, 10*time.Millisecond)
	require.NoError(t, mint())
}
