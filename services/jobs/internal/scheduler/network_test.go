package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
)

func TestPlan_closedNetwork(t *testing.T) {
	t.Parallel()
	open, closing := gpuNode("nod_open", 8), gpuNode("nod_shut", 2)
	closing.ClosesNetwork = true
	alone := func(id string, order, gpus int) scheduler.Waiting {
		w := wants(id, order, job.Pool{Pool: "gpu", Nodes: 1, GPUsPerNode: gpus})
		w.NoNetwork = true
		return w
	}
	got := byJob(scheduler.Plan([]scheduler.Node{open, closing}, nil, []scheduler.Waiting{
		alone("job_1", 1, 2), alone("job_2", 2, 4), wants("job_3", 3, gpus(1, 4)), alone("job_4", 4, 1), wants("job_5", 5, gpus(1, 1)),
	}, rich()))
	require.Equal(t, "nod_shut", got["job_1"].Places[0].NodeID, "the job must get the node with the fewest free GPUs among those that can run it without network access")
	require.Empty(t, got["job_2"].Places)
	require.Equal(t, job.WaitIsolation, got["job_2"].Reason)
	require.Equal(t, "pool gpu has too few nodes that can run a job without network access; the job needs 1 node with 4 GPUs", got["job_2"].Detail)
	require.Equal(t, "nod_open", got["job_3"].Places[0].NodeID, "a job that no node can run must not hold up others")
	require.Equal(t, job.WaitPoolCapacity, got["job_4"].Reason, "the job must wait, because the only node that could run it is taken")
	require.Equal(t, job.WaitPriority, got["job_5"].Reason)
	require.Equal(t, job.WaitIsolation, byJob(scheduler.Plan([]scheduler.Node{open}, nil, []scheduler.Waiting{alone("job_1", 1, 1)}, rich()))["job_1"].Reason)
}
