package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

// slurmFleet creates a Slurm fleet with the given pools.
func (w *harness) slurmFleet(pools ...string) *jobsv1.Fleet {
	w.t.Helper()
	f, err := w.fleets().CreateFleet(w.as(admin()), &jobsv1.CreateFleetRequest{
		Name: fmt.Sprintf("slurm-%d", time.Now().UnixNano()), Kind: jobsv1.FleetKind_FLEET_KIND_SLURM, Pools: pools,
	})
	require.NoError(w.t, err)
	require.Equal(w.t, jobsv1.FleetKind_FLEET_KIND_SLURM, f.GetKind())
	return f
}

func onPartition(partition string) *jobsv1.SlurmPool {
	return &jobsv1.SlurmPool{Partition: partition, Account: "lab", Folder: "/shared"}
}

func (w *harness) setSlurm(pool string, set *jobsv1.SlurmPool) *jobsv1.PoolSettings {
	w.t.Helper()
	p, err := w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: pool, Slurm: set})
	require.NoError(w.t, err)
	return p
}

// slurmAgent lets an agent run works on Slurm.
func slurmAgent(a *agent) {
	a.runsOn = jobsv1.FleetKind_FLEET_KIND_SLURM
	a.slurm = slurmReport()
}

// slurmReport returns the report of a cluster with two partitions. The agent has tested the given pools in the partition
// gpu.
func slurmReport(tested ...string) *jobsv1.SlurmReport {
	r := &jobsv1.SlurmReport{Version: "22.05.8", Partitions: []*jobsv1.SlurmPartition{
		{Name: "cpu", State: "up", Nodes: 4, CpusPerNode: 32, MemoryBytesPerNode: 64 << 30},
		{Name: "gpu", State: "up", Nodes: 2, NodesIdle: 1, GpusTotal: 16, GpusUsed: 6, CpusPerNode: 64, MemoryBytesPerNode: 512 << 30, GpusPerNode: 8, JobsWaiting: 3},
	}}
	for _, pool := range tested {
		r.Pools = append(r.Pools, &jobsv1.SlurmPoolReport{Pool: pool, Slurm: onPartition("gpu"), Isolation: "own_user"})
	}
	return r
}

// reportSlurm reports the state of the cluster with a heartbeat.
func (a *agent) reportSlurm(r *jobsv1.SlurmReport) {
	a.w.t.Helper()
	require.NoError(a.w.t, a.stream.Send(&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Heartbeat{Heartbeat: &jobsv1.Heartbeat{Slurm: r}}}))
}

// pools returns the pools that the agent should test.
func (a *agent) pools() []*jobsv1.DesiredPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.desired.GetPools()
}

// hold reports that Slurm holds a work.
func (a *agent) hold(w *jobsv1.Work, id, reason, detail string) {
	a.w.t.Helper()
	a.see(w, jobsv1.Phase_PHASE_PENDING, func(o *jobsv1.ObservedWork) {
		o.Batch = &jobsv1.BatchReport{Id: id, Reason: reason, Detail: detail}
	})
}

// patient lets agents be silent for longer than a test takes.
func patient(c *jobs.Config) { c.NodeLease = 60 * time.Second }

func gang(nodes, gpus int32) func(*jobsv1.SubmitJobRequest) {
	return func(r *jobsv1.SubmitJobRequest) {
		r.Spec.Resources.Pools = []*jobsv1.PoolRequest{{Pool: "slurm", Nodes: &nodes, GpusPerNode: &gpus}}
	}
}

// awaitReason waits until a job shows the reason for which it waits.
func (w *harness) awaitReason(jobID, reason string) *jobsv1.Job {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.get(jobID).GetQueue().GetReason() == reason }, patience, 10*time.Millisecond, "the job must wait for the reason %s", reason)
	return w.get(jobID)
}

func TestSlurmFleet_wholePath(t *testing.T) {
	t.Parallel()
	w := newHarness(t, patient)
	fleet := w.slurmFleet("slurm", "also")
	_, err := w.jobs().SubmitJob(w.as(alice()), w.request(gang(2, 2)))
	require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "hardware"), "%v", err)
	require.ErrorContains(t, err, "pool slurm has no Slurm settings yet; an admin sets them with PATCH /api/cluster/pools/slurm")
	w.setSlurm("slurm", onPartition("gpu"))
	w.setSlurm("also", onPartition("gpu"))
	waiting := w.submit(gang(2, 2))
	a := w.join(fleet, gpuNode(4), slurmAgent)
	a.wait("the pools to test", func([]*jobsv1.Work) bool { return len(a.pools()) == 2 })
	w.awaitReason(waiting.GetId(), "pool_capacity")
	require.Eventually(t, func() bool {
		return w.get(waiting.GetId()).GetQueue().GetReasonDetail() == "pool slurm is not tested yet; the agent of its Slurm fleet tests it with a short job"
	}, patience, 10*time.Millisecond)
	_, err = w.jobs().SubmitJob(w.as(alice()), w.request(gang(3, 2)))
	require.ErrorContains(t, err, "pool slurm has 2 of the 3 requested nodes: its Slurm partition gpu has no more")

	a.reportSlurm(slurmReport("also", "slurm"))
	work := a.attempt()
	spec := work.GetAttempt().GetBatch()
	require.Equal(t, []any{"slurm", int32(2), int32(2), "gpu", "lab"}, []any{
		spec.GetParts()[0].GetPool(), spec.GetParts()[0].GetNodes(), spec.GetParts()[0].GetGpusPerNode(), spec.GetParts()[0].GetSlurm().GetPartition(),
		spec.GetParts()[0].GetSlurm().GetAccount(),
	})
	require.False(t, spec.GetNotIsolated())
	require.Nil(t, w.get(waiting.GetId()).GetQueue(), "Slurm has stated no reason yet")
	a.hold(work, "4711", "Priority", "expected to start at 12:00")
	got := w.awaitReason(waiting.GetId(), "Priority")
	require.Equal(t, jobsv1.JobState_JOB_STATE_SCHEDULED, got.GetState())
	require.Equal(t, "expected to start at 12:00", got.GetQueue().GetReasonDetail())
	queue, err := w.cluster().ListQueue(w.as(alice()), &jobsv1.ListQueueRequest{})
	require.NoError(t, err)
	require.Len(t, queue.GetEntries(), 1)
	require.Equal(t, []any{waiting.GetId(), "Priority", int32(0)}, []any{queue.GetEntries()[0].GetJobId(), queue.GetEntries()[0].GetReason(), queue.GetEntries()[0].GetPosition()})
	a.hold(work, "4711", "Resources", "")
	w.awaitReason(waiting.GetId(), "Resources")

	a.see(work, jobsv1.Phase_PHASE_RUNNING, func(o *jobsv1.ObservedWork) { o.Batch = &jobsv1.BatchReport{Id: "4711", Nodes: []string{"n1", "n2"}} })
	started := w.await(waiting.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	require.Nil(t, started.GetQueue())
	attempts, err := w.jobs().ListAttempts(w.as(alice()), &jobsv1.ListAttemptsRequest{JobId: waiting.GetId()})
	require.NoError(t, err)
	require.Equal(t, "4711", attempts.GetAttempts()[0].GetBatchId())
	require.Equal(t, []string{"n1", "n2"}, attempts.GetAttempts()[0].GetBatchNodes())
	require.Equal(t, a.nodeID, attempts.GetAttempts()[0].GetNodeId())
	a.exit(work, 0, "", "")
	w.await(waiting.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)
}

func TestSlurmFleet_countsAndReport(t *testing.T) {
	t.Parallel()
	w := newHarness(t, patient)
	fleet := w.slurmFleet("slurm", "also")
	require.Nil(t, w.poolOf("slurm").GetSlurm())
	w.setSlurm("slurm", onPartition("gpu"))
	w.setSlurm("also", onPartition("gpu"))
	a := w.join(fleet, gpuNode(4), slurmAgent)
	w.awaitNode(a.nodeID, "ready")
	w.join(w.fleet("gpu"), gpuNode(2))
	a.reportSlurm(slurmReport("slurm"))
	require.Eventually(t, func() bool { return w.poolOf("slurm").GetNodesPermitted() == 1 }, patience, 10*time.Millisecond)
	got, err := w.fleets().GetFleet(w.as(alice()), &jobsv1.GetFleetRequest{FleetId: fleet.GetId()})
	require.NoError(t, err)
	require.Equal(t, [3]int32{1, 16, 10}, [3]int32{got.GetNodes(), got.GetGpusTotal(), got.GetGpusFree()})
	require.Equal(t, "22.05.8", got.GetSlurm().GetVersion())
	require.EqualValues(t, 3, got.GetSlurm().GetPartitions()[1].GetJobsWaiting())
	require.Equal(t, "own_user", got.GetSlurm().GetPools()[0].GetIsolation())
	sum, err := w.cluster().GetCluster(w.as(alice()), &jobsv1.GetClusterRequest{})
	require.NoError(t, err)
	require.Equal(t, [3]int32{2, 18, 12}, [3]int32{sum.GetNodes(), sum.GetGpusTotal(), sum.GetGpusFree()}, "a partition counts once, even if two pools use it")
	pool := w.poolOf("slurm")
	require.Equal(t, [4]int32{1, 1, 16, 10}, [4]int32{pool.GetNodes(), pool.GetNodesReady(), pool.GetGpusTotal(), pool.GetGpusFree()})
	require.Equal(t, "gpu", pool.GetSlurm().GetPartition())
	require.Zero(t, w.poolOf("also").GetNodesPermitted(), "the pool is not tested yet")
	require.EqualValues(t, 2, w.poolOf("gpu").GetGpusTotal())
	require.Nil(t, w.poolOf("gpu").GetSlurm())
}

func TestSlurmFleet_settingsOfPool(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.slurmFleet("slurm")
	w.fleet("cpu")
	for range 2 {
		p := w.setSlurm("slurm", onPartition("gpu"))
		require.Equal(t, []any{"gpu", "lab", "/shared", "required"}, []any{p.GetSlurm().GetPartition(), p.GetSlurm().GetAccount(), p.GetSlurm().GetFolder(), p.GetIsolation()})
	}
	require.Equal(t, 1, w.count(`event WHERE type = 'pool.slurm' AND subject_id = 'slurm' AND from_state = '' AND to_state = 'partition gpu, account lab, folder /shared'`))
	require.Equal(t, 1, w.count(`audit WHERE action = 'pool.update' AND after->'slurm'->>'partition' = 'gpu'`), "unchanged settings must leave no audit row")
	w.setIsolation("slurm", "none")
	require.Equal(t, "gpu", w.poolOf("slurm").GetSlurm().GetPartition(), "settings that the request omits must stay")
	require.Nil(t, w.setSlurm("cpu", nil).GetSlurm())
	for name, c := range map[string]struct {
		pool string
		set  *jobsv1.SlurmPool
		want string
	}{
		"pool of hosts":   {"cpu", onPartition("gpu"), "no Slurm fleet serves pool cpu; create a fleet of kind slurm with this pool first"},
		"no partition":    {"slurm", &jobsv1.SlurmPool{Folder: "/s"}, "partition"},
		"partition":       {"slurm", &jobsv1.SlurmPool{Partition: "gpu --uid=0", Folder: "/s"}, "partition"},
		"relative folder": {"slurm", &jobsv1.SlurmPool{Partition: "gpu", Folder: "s"}, "folder"},
		"folder not clean": {
			"slurm", &jobsv1.SlurmPool{Partition: "gpu", Folder: "/s/../t"}, "the path must be absolute, without `.`, `..`, repeated or trailing slashes",
		},
		"user": {"slurm", &jobsv1.SlurmPool{Partition: "gpu", Folder: "/s", User: "a b"}, "user"},
	} {
		_, err := w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: c.pool, Slurm: c.set})
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := w.cluster().UpdatePool(w.as(admin()), &jobsv1.UpdatePoolRequest{Pool: "slurm", DefaultProcesses: new(int32(128))})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.ErrorContains(t, err, "Slurm limits the processes of its jobs, not Signalbox")
	_, err = w.cluster().UpdatePool(w.as(alice()), &jobsv1.UpdatePoolRequest{Pool: "slurm", Slurm: onPartition("x")})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	require.Equal(t, "gpu", w.poolOf("slurm").GetSlurm().GetPartition())
	_, err = w.works().PutWork(t.Context(), &jobspeerv1.PutWorkRequest{
		WorkId: "wrk_engine", Generation: 1, Desired: jobsv1.Desired_DESIRED_RUNNING, Pool: "slurm", OwnerId: "usr_alice", Engine: &jobsv1.EngineSpec{Driver: "llamacpp"},
	})
	require.True(t, fault.Is(err, fault.Unconfigured) && fault.HasCode(err, "slurm_engine"), "%v", err)
}

func TestSlurmFleet_agents(t *testing.T) {
	t.Parallel()
	w := newHarness(t, patient)
	fleet := w.slurmFleet("slurm")
	host := w.join(fleet, cpuNode())
	require.True(t, fault.HasCode(host.refused(), "runs_on"), "%v", host.err)
	wrong := w.join(w.fleet("cpu"), cpuNode(), slurmAgent)
	require.True(t, fault.HasCode(wrong.refused(), "runs_on"), "%v", wrong.err)
	first := w.join(fleet, cpuNode(), slurmAgent)
	w.awaitNode(first.nodeID, "ready")
	second := w.join(fleet, cpuNode(), slurmAgent)
	err := second.refused()
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "slurm_agent_exists"), "%v", err)
	bad := w.join(w.slurmFleet("other"), cpuNode(), slurmAgent, func(a *agent) { a.slurm.Version = string(make([]byte, 65)) })
	require.True(t, fault.Is(bad.refused(), fault.Invalid), "a report that breaks the rules of its fields must be refused: %v", bad.err)
}

// While the agent of a Slurm fleet is away, what Slurm holds keeps its place there, unless the job is stopped.
func TestSlurmFleet_lostAgent(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(c *jobs.Config) { c.FenceTimeout = 4 * time.Second })
	fleet := w.slurmFleet("slurm")
	w.setSlurm("slurm", onPartition("gpu"))
	a := w.join(fleet, cpuNode(), slurmAgent, func(a *agent) { a.slurm = slurmReport("slurm") })
	kept := w.submit(gang(2, 1))
	again := a.attempt()
	a.hold(again, "4711", "Priority", "")
	w.awaitReason(kept.GetId(), "Priority")
	stopped := w.submit(gang(2, 1))
	work := a.attempt()
	a.hold(work, "4712", "Priority", "")
	w.awaitReason(stopped.GetId(), "Priority")
	a.cancel()
	w.awaitNode(a.nodeID, "lost")
	_, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: stopped.GetId()})
	require.NoError(t, err)
	w.await(stopped.GetId(), jobsv1.JobState_JOB_STATE_STOPPED)
	require.Equal(t, jobsv1.JobState_JOB_STATE_SCHEDULED, w.get(kept.GetId()).GetState(), "the fence timeout is over, and Slurm still holds the job")

	a.connect()
	a.wait("the stopped work to be gone", func(works []*jobsv1.Work) bool {
		for _, d := range works {
			if d.GetWorkId() == work.GetWorkId() && d.GetDesired() == jobsv1.Desired_DESIRED_GONE {
				return true
			}
		}
		return false
	})
	a.forget(work)
	j := kept
	a.see(again, jobsv1.Phase_PHASE_RUNNING)
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	a.exit(again, -1, "lost", "NODE_FAIL on n1")
	w.awaitJob(j.GetId(), "queued for its second attempt", func(j *jobsv1.Job) bool {
		return j.GetState() == jobsv1.JobState_JOB_STATE_QUEUED && j.GetQueue().GetReason() == "backoff"
	})
	attempts, err := w.jobs().ListAttempts(w.as(alice()), &jobsv1.ListAttemptsRequest{JobId: j.GetId()})
	require.NoError(t, err)
	require.Equal(t, []string{"executor_lost", "NODE_FAIL on n1"}, []string{attempts.GetAttempts()[0].GetEndReason(), attempts.GetAttempts()[0].GetMessage()})
}

// The agent learns of new settings at once, and not only with its next heartbeat.
func TestSlurmFleet_agentGetsChangedSettings(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(c *jobs.Config) { c.NodeLease, c.FenceTimeout = time.Hour, time.Hour })
	a := w.join(w.slurmFleet("slurm"), cpuNode(), slurmAgent)
	for _, partition := range []string{"gpu", "cpu"} {
		w.setSlurm("slurm", onPartition(partition))
		a.wait(partition, func([]*jobsv1.Work) bool {
			pools := a.pools()
			return len(pools) == 1 && pools[0].GetSlurm().GetPartition() == partition
		})
	}
}
