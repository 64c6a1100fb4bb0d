package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
)

func TestPlan_runtime(t *testing.T) {
	t.Parallel()
	plain, offering := gpuNode("nod_plain", 8), gpuNode("nod_torch", 2)
	plain.Runtimes = fleet.Runtimes(nil, true)
	offering.Runtimes = fleet.Runtimes([]string{"torch"}, false)
	needs := func(id string, order, gpus int, runtime string) scheduler.Waiting {
		w := wants(id, order, job.Pool{Pool: "gpu", Nodes: 1, GPUsPerNode: gpus})
		w.Runtime = runtime
		return w
	}
	got := byJob(scheduler.Plan([]scheduler.Node{plain, offering}, nil, []scheduler.Waiting{
		needs("job_1", 1, 1, fleet.RuntimeRequirements), needs("job_2", 2, 2, fleet.NodeRuntime("torch")), needs("job_3", 3, 4, fleet.NodeRuntime("torch")),
		needs("job_4", 4, 1, fleet.NodeRuntime("jax")), needs("job_5", 5, 4, ""), needs("job_6", 6, 1, fleet.NodeRuntime("torch")),
	}, rich()))
	require.Equal(t, "nod_plain", got["job_1"].Places[0].NodeID)
	require.Equal(t, "nod_torch", got["job_2"].Places[0].NodeID)
	require.Equal(t, job.WaitPoolCapacity, got["job_3"].Reason)
	require.Equal(t, "pool gpu has too few ready nodes that offer the interpreter torch; the job needs 1 node with 4 GPUs", got["job_3"].Detail)
	require.Equal(t, "pool gpu has too few ready nodes that offer the interpreter jax; the job needs 1 node with 1 GPU", got["job_4"].Detail)
	require.Equal(t, "nod_plain", got["job_5"].Places[0].NodeID, "a job that no node can run must not hold up others")
	require.Equal(t, job.WaitPoolCapacity, got["job_6"].Reason)
	require.Contains(t, got["job_6"].Detail, "is full", "the only node that offers the interpreter is taken")
}
