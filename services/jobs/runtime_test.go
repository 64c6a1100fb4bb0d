package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// in returns a change that makes a submission run the user's own command in the environment.
func in(runtime *jobsv1.Runtime) func(*jobsv1.SubmitJobRequest) {
	return func(r *jobsv1.SubmitJobRequest) {
		ownCommand(nil)(r)
		r.Spec.Source.Package, r.Spec.Runtime = "pkg_1", runtime
	}
}

// offers returns a change that makes an agent offer interpreters, and build the environments of locks.
func offers(pythons ...string) func(*agent) {
	return func(a *agent) { a.pythons, a.builds = pythons, true }
}

func TestRuntime_nodes(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	earlier := w.join(fleet, cpuNode())
	node := w.awaitNode(earlier.nodeID, "ready")
	require.Empty(t, node.GetPythons())
	require.False(t, node.GetBuildsEnvironments())
	refused := func(runtime *jobsv1.Runtime, want string) {
		t.Helper()
		_, err := w.jobs().SubmitJob(w.as(alice()), w.request(in(runtime)))
		require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "hardware"), "%v", err)
		require.ErrorContains(t, err, want)
	}
	lock, cuda := &jobsv1.Runtime{Requirements: "uv.lock"}, &jobsv1.Runtime{Node: "cuda"}
	refused(lock, "build the environments of locks")
	refused(cuda, "no node of the pool offers an interpreter")
	require.Zero(t, w.count("job"))

	able := w.join(fleet, cpuNode(), offers("jax", "cuda"))
	node = w.awaitNode(able.nodeID, "ready")
	require.Equal(t, []string{"cuda", "jax"}, node.GetPythons())
	require.True(t, node.GetBuildsEnvironments())
	refused(&jobsv1.Runtime{Node: "torch"}, "nodes of the pool offer cuda, jax")
	first := w.submit(in(lock))
	work := able.attempt()
	require.Equal(t, first.GetId(), work.GetAttempt().GetJobId())
	require.Equal(t, "uv.lock", work.GetAttempt().GetEnvironment().GetLock())
	require.Empty(t, work.GetAttempt().GetEnvironment().GetRequirements())
	require.NotEmpty(t, work.GetAttempt().GetEnvironment().GetProject())
	able.see(work, jobsv1.Phase_PHASE_PREPARING)
	w.submit(in(cuda))
	second := able.attempt()
	require.Equal(t, "cuda", second.GetAttempt().GetEnvironment().GetPython())
	able.see(second, jobsv1.Phase_PHASE_PREPARING)
	port := func(w *jobsv1.Work) string { return w.GetAttempt().GetEnv()["SERVICE_JOB_MASTER_PORT"] }
	require.Equal(t, []string{"29500", "29501"}, []string{port(work), port(second)}, "attempts of a node must not share a port")

	clone, err := w.jobs().CloneJob(w.as(alice()), &jobsv1.CloneJobRequest{JobId: first.GetId()})
	require.NoError(t, err)
	third := able.attempt()
	require.Equal(t, clone.GetId(), third.GetAttempt().GetJobId())
	require.Equal(t, "uv.lock", third.GetAttempt().GetEnvironment().GetLock())

	_, err = w.cluster().CordonNode(w.as(admin()), &jobsv1.CordonNodeRequest{NodeId: able.nodeID})
	require.NoError(t, err)
	waiting := w.submit(in(cuda))
	require.Eventually(t, func() bool { return w.get(waiting.GetId()).GetQueue().GetReason() == "pool_capacity" }, patience, 10*time.Millisecond)
	require.Contains(t, w.get(waiting.GetId()).GetQueue().GetReasonDetail(), "too few ready nodes that offer the interpreter cuda")
}

// Between the placement and the start of an attempt, the node's agent may be replaced by an earlier version, which
// would run the command with the node's own Python.
func TestRuntime_nodeLosesTheAbility(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode(), offers())
	w.awaitNode(a.nodeID, "ready")
	w.submit(in(&jobsv1.Runtime{Requirements: "uv.lock"}))
	work := a.attempt()
	mint := func() error {
		_, err := a.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{
			WorkId: work.GetWorkId(), Generation: work.GetGeneration(), Fence: work.GetFence(),
		})
		return err
	}
	for _, builds := range []bool{false, true} {
		a.cancel()
		a.builds = builds
		a.connect()
		offering := map[bool]int{true: 1}[builds]
		require.Eventually(t, func() bool { return w.count(`node WHERE 'requirements' = ANY(runtimes)`) == offering }, patience, 10*time.Millisecond)
		if err := mint(); builds {
			require.NoError(t, err)
		} else {
			require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "runtime_gone"), "%v", err)
		}
	}
}
