package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// reports sets what the agent reports, when it connects, about how its node isolates work.
func reports(b *jobsv1.NodeBoundary) func(*agent) { return func(a *agent) { a.boundary = b } }

func (w *harness) setIsolation(pool, isolation string) {
	w.t.Helper()
	p, err := w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: pool, Isolation: &isolation})
	require.NoError(w.t, err)
	require.Equal(w.t, isolation, p.GetIsolation())
}

// poolOf returns a pool from the response of GET /api/cluster.
func (w *harness) poolOf(name string) *jobsv1.PoolSummary {
	w.t.Helper()
	c, err := w.cluster().GetCluster(w.as(alice()), &jobsv1.GetClusterRequest{})
	require.NoError(w.t, err)
	for _, p := range c.GetPools() {
		if p.GetPool() == name {
			return p
		}
	}
	require.FailNow(w.t, "the response has no such pool", name)
	return nil
}

func TestPoolIsolation_nodeWithoutBoundary(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	open := &jobsv1.NodeBoundary{
		Kind: "none", Problem: new("SERVICE_AGENT_ISOLATION is set to none"), Unlimited: []string{"disk", "network"}, NetworkProblem: new("the program pasta is not in PATH"),
		Network: "open", Reasons: map[string]string{"disk": "the agent does not run as root", "network": "the program pasta is not in PATH"},
	}
	a := w.join(w.fleet("cpu"), cpuNode(), reports(open))
	n := w.awaitNode(a.nodeID, "ready")
	require.Equal(t, []any{"none", false, open.GetProblem(), []string{"disk", "network"}, open.GetNetworkProblem()},
		[]any{n.GetBoundary().GetKind(), n.GetBoundary().GetRequired(), n.GetBoundary().GetProblem(), n.GetBoundary().GetUnlimited(), n.GetBoundary().GetNetworkProblem()})
	require.Equal(t, []any{"open", open.GetReasons()}, []any{n.GetBoundary().GetNetwork(), n.GetBoundary().GetReasons()})
	require.Equal(t, []any{"required", int32(0), int32(1)}, []any{w.poolOf("cpu").GetIsolation(), w.poolOf("cpu").GetNodesPermitted(), w.poolOf("cpu").GetNodes()})

	_, err := w.jobs().SubmitJob(w.as(alice()), w.request())
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "isolation"), "%v", err)
	_, err = w.works().CheckPool(t.Context(), &jobspeerv1.CheckPoolRequest{Pool: "cpu"})
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "isolation"), "%v", err)
	require.Zero(t, w.count("job"))
	_, err = w.works().CheckPool(t.Context(), &jobspeerv1.CheckPoolRequest{Pool: "other"})
	require.NoError(t, err, "a pool without nodes must pass the check, because nodes may join it later")

	none := "none"
	_, err = w.cluster().UpdatePool(w.as(alice()), &jobsv1.UpdatePoolRequest{Pool: "cpu", Isolation: &none})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: "other", Isolation: &none})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.Zero(t, w.count(`audit WHERE action = 'pool.update'`)+w.count("pool"))
	w.setIsolation("cpu", "none")
	w.setIsolation("cpu", "none")
	require.Equal(t, 1, w.count(`audit WHERE action = 'pool.update' AND target_kind = 'pool' AND target_id = 'cpu'`), "an unchanged setting must leave no audit row")
	require.Equal(t, 1, w.count(`event WHERE type = 'pool.isolation' AND subject_id = 'cpu'`))
	require.Equal(t, []any{"none", int32(1)}, []any{w.poolOf("cpu").GetIsolation(), w.poolOf("cpu").GetNodesPermitted()})
	_, err = w.works().CheckPool(t.Context(), &jobspeerv1.CheckPoolRequest{Pool: "cpu"})
	require.NoError(t, err)
	first := w.submit()
	require.Equal(t, first.GetId(), a.attempt().GetAttempt().GetJobId())

	w.setIsolation("cpu", "required")
	_, err = w.jobs().SubmitJob(w.as(alice()), w.request())
	require.True(t, fault.HasCode(err, "isolation"), "%v", err)
	require.Equal(t, jobsv1.JobState_JOB_STATE_SCHEDULED, w.get(first.GetId()).GetState(), "placed work must continue")
}

func TestPool_defaultMemory(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	set := func(gb int32) *jobsv1.PoolSettings {
		p, err := w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: "cpu", DefaultMemoryGb: &gb})
		require.NoError(t, err)
		return p
	}
	p := set(3)
	require.Equal(t, []any{"required", int32(3)}, []any{p.GetIsolation(), p.GetDefaultMemoryGb()})
	require.EqualValues(t, 3, w.poolOf("cpu").GetDefaultMemoryGb())
	require.Equal(t, 1, w.count(`event WHERE type = 'pool.default_memory' AND to_state = '3'`))
	w.submit()
	first := a.attempt()
	require.EqualValues(t, 3<<30, first.GetAttempt().GetLimits().GetMemoryBytes())
	a.see(first, jobsv1.Phase_PHASE_RUNNING)
	w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Resources.Pools[0].MemoryGb = new(int32(2)) })
	require.EqualValues(t, 2<<30, a.attempt().GetAttempt().GetLimits().GetMemoryBytes(), "the job's own request must take precedence")
	set(16)
	_, err := w.jobs().SubmitJob(w.as(alice()), w.request())
	require.True(t, fault.HasCode(err, "hardware"), "a request for more memory than any node has must be refused: %v", err)
	set(0)
	require.Zero(t, w.poolOf("cpu").GetDefaultMemoryGb())
}

func TestPool_defaultProcesses(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	set := func(n int32) *jobsv1.PoolSettings {
		p, err := w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: "cpu", DefaultProcesses: &n})
		require.NoError(t, err)
		return p
	}
	limit := func() int32 {
		w.submit()
		work := a.attempt()
		a.see(work, jobsv1.Phase_PHASE_RUNNING)
		return work.GetAttempt().GetLimits().GetPids()
	}
	require.EqualValues(t, 4096, limit(), "a pool without a setting has the usual number")
	p := set(512)
	set(512)
	require.Equal(t, []any{"required", int32(0), int32(512)}, []any{p.GetIsolation(), p.GetDefaultMemoryGb(), p.GetDefaultProcesses()})
	require.EqualValues(t, 512, w.poolOf("cpu").GetDefaultProcesses())
	require.Equal(t, 1, w.count(`event WHERE type = 'pool.default_processes' AND from_state = '0' AND to_state = '512'`))
	require.Equal(t, 1, w.count(`audit WHERE action = 'pool.update' AND target_id = 'cpu' AND after->>'default_processes' = '512'`))
	require.EqualValues(t, 512, limit())
	for _, wrong := range []int32{-1, 1, 63, 1<<20 + 1} {
		_, err := w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: "cpu", DefaultProcesses: &wrong})
		require.True(t, fault.Is(err, fault.Invalid), "%d: %v", wrong, err)
	}
	set(0)
	require.EqualValues(t, 4096, limit())
}

func TestPool_onSilence(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	require.Equal(t, "continue", w.poolOf("cpu").GetOnSilence())
	set := func(to string) {
		p, err := w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: "cpu", OnSilence: &to})
		require.NoError(t, err)
		require.Equal(t, []any{to, "required", int32(0)}, []any{p.GetOnSilence(), p.GetIsolation(), p.GetDefaultMemoryGb()})
		require.Equal(t, to, w.poolOf("cpu").GetOnSilence())
	}
	silence := func() int32 {
		w.submit()
		work := a.attempt()
		token, err := a.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{
			WorkId: work.GetWorkId(), Generation: work.GetGeneration(), Fence: work.GetFence(),
		})
		require.NoError(t, err)
		a.see(work, jobsv1.Phase_PHASE_RUNNING)
		return token.GetSilenceS()
	}
	set("stop")
	set("stop")
	require.Equal(t, 1, w.count(`audit WHERE action = 'pool.update' AND target_id = 'cpu' AND after->>'on_silence' = 'stop'`))
	require.Equal(t, 1, w.count(`event WHERE type = 'pool.on_silence' AND subject_id = 'cpu' AND from_state = 'continue' AND to_state = 'stop'`))
	require.Positive(t, silence())
	set("continue")
	require.Zero(t, silence())
}

// A node that must isolate its work but cannot do so gets no work, whatever its pool permits. The same applies to a
// node that does not report how it isolates work.
func TestPoolIsolation_nodeThatRefusesWorks(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*jobsv1.NodeBoundary{
		"none":    {Kind: "none", Required: true, Problem: new("no user namespaces")},
		"unknown": nil,
		"future":  {Kind: "vm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t)
			a := w.join(w.fleet("cpu"), cpuNode(), reports(b))
			w.setIsolation("cpu", "none")
			got := w.awaitNode(a.nodeID, "ready").GetBoundary()
			require.NotEmpty(t, got.GetKind())
			require.Equal(t, "unknown", got.GetNetwork(), "an agent of an earlier version does not report it")
			_, err := w.jobs().SubmitJob(w.as(alice()), w.request())
			require.True(t, fault.HasCode(err, "isolation"), "%v", err)
		})
	}
}

func TestPoolIsolation_nodeLosesItsBoundary(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	a := w.join(fleet, cpuNode())
	w.awaitNode(a.nodeID, "ready")
	_, err := w.cluster().CordonNode(w.as(admin()), &jobsv1.CordonNodeRequest{NodeId: a.nodeID})
	require.NoError(t, err)
	waiting := w.submit()
	_, err = w.works().PutWork(t.Context(), &jobspeerv1.PutWorkRequest{
		WorkId: "wrk_engine", Generation: 1, Desired: jobsv1.Desired_DESIRED_RUNNING, Pool: "cpu", OwnerId: "usr_alice",
		Engine: &jobsv1.EngineSpec{Driver: "llamacpp"},
	})
	require.NoError(t, err)
	a.cancel()
	a.boundary = &jobsv1.NodeBoundary{Kind: "none"}
	a.connect()
	require.Eventually(t, func() bool { return w.count(`node WHERE boundary->>'kind' = 'none'`) == 1 }, patience, 10*time.Millisecond)
	_, err = w.cluster().UncordonNode(w.as(admin()), &jobsv1.UncordonNodeRequest{NodeId: a.nodeID})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		a.heartbeat()
		return w.get(waiting.GetId()).GetQueue().GetReason() == "isolation" && w.count(`work WHERE kind = 'engine' AND waiting = 'isolation'`) == 1
	}, patience, 100*time.Millisecond)
	require.Contains(t, w.get(waiting.GetId()).GetQueue().GetReasonDetail(), "1 node of a suitable size may not run the job")

	b := w.join(fleet, cpuNode())
	b.attempt()
	b.work(jobsv1.WorkKind_WORK_KIND_ENGINE)
}

func TestPoolIsolation_endsWithPool(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	one, two := w.fleet("cpu", "gpu"), w.fleet("cpu")
	w.setIsolation("cpu", "none")
	w.setIsolation("gpu", "none")
	_, err := w.fleets().UpdateFleet(w.as(admin()), &jobsv1.UpdateFleetRequest{FleetId: one.GetId(), Pools: []string{"big"}})
	require.NoError(t, err)
	require.Equal(t, 1, w.count("pool"), "only the other fleet's pool must be left")
	_, err = w.fleets().DeleteFleet(w.as(admin()), &jobsv1.DeleteFleetRequest{FleetId: two.GetId()})
	require.NoError(t, err)
	require.Zero(t, w.count("pool"), "a later pool of the same name must not inherit the permission")
}
