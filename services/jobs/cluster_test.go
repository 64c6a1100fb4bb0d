package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

func (w *harness) cluster() jobsv1.ClusterServiceClient {
	return jobsv1.NewClusterServiceClient(w.dial("gateway"))
}

func (w *harness) drain(nodeID string, mode jobsv1.DrainMode, deadline *int32) *jobsv1.Node {
	w.t.Helper()
	n, err := w.cluster().DrainNode(w.as(admin()), &jobsv1.DrainNodeRequest{NodeId: nodeID, Mode: mode, DeadlineS: deadline})
	require.NoError(w.t, err)
	return n
}

// awaitNode waits until the API returns a node in the given state.
func (w *harness) awaitNode(nodeID, state string) *jobsv1.Node {
	w.t.Helper()
	var n *jobsv1.Node
	require.Eventually(w.t, func() bool {
		var err error
		n, err = w.cluster().GetNode(w.as(alice()), &jobsv1.GetNodeRequest{NodeId: nodeID})
		return err == nil && n.GetState() == state
	}, patience, 20*time.Millisecond, "node %s must become %s", nodeID, state)
	return n
}

func TestCordonNode(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	first := w.submit()
	running := a.attempt()
	a.see(running, jobsv1.Phase_PHASE_RUNNING)
	reason := "a fan is loud"
	n, err := w.cluster().CordonNode(w.as(admin()), &jobsv1.CordonNodeRequest{NodeId: a.nodeID, Reason: &reason})
	require.NoError(t, err)
	require.Equal(t, []string{"cordoned", reason}, []string{n.GetState(), n.GetReason()})
	require.EqualValues(t, 1, n.GetWorks())
	require.Nil(t, n.GetDrain())

	second := w.submit()
	require.Eventually(t, func() bool { return w.get(second.GetId()).GetQueue().GetPosition() == 1 }, patience, 20*time.Millisecond)
	require.Equal(t, "pool_capacity", w.get(second.GetId()).GetQueue().GetReason())
	again, err := w.cluster().CordonNode(w.as(admin()), &jobsv1.CordonNodeRequest{NodeId: a.nodeID, Reason: &reason})
	require.NoError(t, err)
	require.Equal(t, "cordoned", again.GetState())
	require.Equal(t, 1, w.count(`audit WHERE action = 'node.cordon'`), "repeating the same order must leave no audit row")
	a.exit(running, 0, "", "")
	w.await(first.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)

	n, err = w.cluster().UncordonNode(w.as(admin()), &jobsv1.UncordonNodeRequest{NodeId: a.nodeID})
	require.NoError(t, err)
	require.Equal(t, "ready", n.GetState())
	require.Nil(t, n.Reason)
	require.Equal(t, second.GetId(), a.attempt().GetAttempt().GetJobId(), "the waiting job must be placed at once")
	require.Equal(t, 1, w.count(`event WHERE type = 'node.cordoned'`))
	require.Equal(t, 1, w.count(`event WHERE type = 'node.uncordoned'`))
}

func TestDrainNodeWait(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	running := a.attempt()
	a.see(running, jobsv1.Phase_PHASE_RUNNING)
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	n := w.drain(a.nodeID, jobsv1.DrainMode_DRAIN_MODE_WAIT, nil)
	require.Equal(t, "draining", n.GetState())
	require.Equal(t, jobsv1.DrainMode_DRAIN_MODE_WAIT, n.GetDrain().GetMode())
	require.Nil(t, n.GetDrain().GetDeadline())
	require.Equal(t, jobsv1.JobState_JOB_STATE_STARTING, w.get(j.GetId()).GetState(), "the job must continue")
	_, err := w.cluster().CordonNode(w.as(admin()), &jobsv1.CordonNodeRequest{NodeId: a.nodeID})
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	a.exit(running, 0, "", "")
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)
	require.Zero(t, w.awaitNode(a.nodeID, "drained").GetWorks())
	require.Equal(t, "drained", w.drain(a.nodeID, jobsv1.DrainMode_DRAIN_MODE_KILL, nil).GetState(), "a drained node must stay drained")
	n, err = w.cluster().UncordonNode(w.as(admin()), &jobsv1.UncordonNodeRequest{NodeId: a.nodeID})
	require.NoError(t, err)
	require.Equal(t, "ready", n.GetState())
	require.Nil(t, n.GetDrain())
}

func TestDrainNodeKill(t *testing.T) {
	t.Parallel()
	soon := int32(1)
	for name, drain := range map[string]struct {
		mode     jobsv1.DrainMode
		deadline *int32
	}{
		"at once":         {jobsv1.DrainMode_DRAIN_MODE_KILL, nil},
		"at its deadline": {jobsv1.DrainMode_DRAIN_MODE_WAIT, &soon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t)
			fleet := w.fleet("cpu")
			a := w.join(fleet, cpuNode())
			j := w.submit()
			running := a.attempt()
			a.see(running, jobsv1.Phase_PHASE_RUNNING)
			w.drain(a.nodeID, drain.mode, drain.deadline)
			a.wait("desired stopped", func(works []*jobsv1.Work) bool {
				return len(works) == 1 && works[0].GetWorkId() == running.GetWorkId() && works[0].GetDesired() == jobsv1.Desired_DESIRED_STOPPED
			})
			require.Equal(t, "draining", w.awaitNode(a.nodeID, "draining").GetState(), "the node must not be drained before its processes have exited")
			b := w.join(fleet, cpuNode())
			a.exit(running, -1, "stopped", "")
			w.awaitNode(a.nodeID, "drained")
			next := b.attempt()
			require.Equal(t, j.GetId(), next.GetAttempt().GetJobId())
			require.EqualValues(t, 2, w.get(j.GetId()).GetAttempt())
		})
	}
}

// A job that can save a checkpoint is paused and continues on another node. Any other job keeps running.
func TestDrainNodeCheckpoint(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	a := w.join(fleet, cpuNode())
	saves := w.submit()
	saving := w.running(a, saves)
	cannot := w.submit()
	plain := w.running(a, cannot)
	signal := func() *jobspeerv1.Signal {
		s, err := w.runPeer().NextSignal(t.Context(), &jobspeerv1.NextSignalRequest{RunId: saves.GetRunId(), Attempt: 1})
		require.NoError(t, err)
		return s
	}
	signal() // this job polls for signals; the other job never does
	n := w.drain(a.nodeID, jobsv1.DrainMode_DRAIN_MODE_CHECKPOINT, nil)
	require.Equal(t, jobsv1.DrainMode_DRAIN_MODE_CHECKPOINT, n.GetDrain().GetMode())
	w.await(saves.GetId(), jobsv1.JobState_JOB_STATE_PAUSING)
	require.Equal(t, jobsv1.JobState_JOB_STATE_RUNNING, w.get(cannot.GetId()).GetState())
	require.NoError(t, w.checkpoint(saves, 1, "art_state", "npz"))
	_, err := w.runPeer().AckSignal(t.Context(), &jobspeerv1.AckSignalRequest{RunId: saves.GetRunId(), Attempt: 1, SignalId: signal().GetId()})
	require.NoError(t, err)
	a.wait("the saved job desired stopped", func(works []*jobsv1.Work) bool {
		for _, one := range works {
			if one.GetWorkId() == saving.GetWorkId() {
				return one.GetDesired() == jobsv1.Desired_DESIRED_STOPPED
			}
		}
		return false
	})
	b := w.join(fleet, cpuNode())
	a.exit(saving, -1, "stopped", "")
	next := b.attempt()
	require.Equal(t, saves.GetId(), next.GetAttempt().GetJobId(), "the job must continue on the other node without a resume call")
	require.EqualValues(t, 2, w.get(saves.GetId()).GetAttempt())
	require.Equal(t, "draining", w.awaitNode(a.nodeID, "draining").GetState(), "the node must be draining while the other job runs there")
	require.Equal(t, 1, w.count(`event WHERE from_state = 'running' AND to_state = 'pausing'`), "the checkpoint must be requested once")
	a.exit(plain, 0, "", "")
	w.await(cannot.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)
	w.awaitNode(a.nodeID, "drained")
}

func TestNodeOrdersRefused(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	for name, c := range map[string]struct {
		as   authn.Caller
		node string
		mode jobsv1.DrainMode
		kind fault.Kind
	}{
		"operator role": {alice(), a.nodeID, jobsv1.DrainMode_DRAIN_MODE_WAIT, fault.Forbidden},
		"no such node":  {admin(), w.ids.New(id.Node), jobsv1.DrainMode_DRAIN_MODE_WAIT, fault.Absent},
		"invalid id":    {admin(), "x", jobsv1.DrainMode_DRAIN_MODE_WAIT, fault.Invalid},
		"no mode":       {admin(), a.nodeID, jobsv1.DrainMode_DRAIN_MODE_UNSPECIFIED, fault.Invalid},
		"unknown mode":  {admin(), a.nodeID, jobsv1.DrainMode(9), fault.Invalid},
	} {
		_, err := w.cluster().DrainNode(w.as(c.as), &jobsv1.DrainNodeRequest{NodeId: c.node, Mode: c.mode})
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
	}
	_, err := w.cluster().CordonNode(w.as(alice()), &jobsv1.CordonNodeRequest{NodeId: a.nodeID})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.cluster().UncordonNode(w.as(alice()), &jobsv1.UncordonNodeRequest{NodeId: a.nodeID})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.cluster().GetNode(w.as(alice()), &jobsv1.GetNodeRequest{NodeId: w.ids.New(id.Node)})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.Zero(t, w.count(`node WHERE hold <> ''`))
	require.Zero(t, w.count(`audit WHERE action LIKE 'node.%' AND action <> 'node.join'`))
}

func TestGetCluster(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("gpu", "cpu")
	a := w.join(fleet, gpuNode(4))
	b := w.join(fleet, gpuNode(2))
	w.submit(oneGPU)
	require.Eventually(t, func() bool { return w.count(`work`) == 1 }, patience, 20*time.Millisecond)
	_, err := w.cluster().CordonNode(w.as(admin()), &jobsv1.CordonNodeRequest{NodeId: b.nodeID})
	require.NoError(t, err)
	w.submit(oneGPU)
	sum, err := w.cluster().GetCluster(w.as(alice()), &jobsv1.GetClusterRequest{})
	require.NoError(t, err)
	require.Equal(t, [3]int32{1, 2, 6}, [3]int32{sum.GetFleets(), sum.GetNodes(), sum.GetGpusTotal()})
	require.Equal(t, map[string]int32{"ready": 1, "cordoned": 1}, sum.GetNodesByState())
	require.Len(t, sum.GetPools(), 2)
	require.Equal(t, "cpu", sum.GetPools()[0].GetPool())
	require.Equal(t, [4]int32{2, 1, 6, sum.GetGpusFree()}, [4]int32{
		sum.GetPools()[0].GetNodes(), sum.GetPools()[0].GetNodesReady(), sum.GetPools()[0].GetGpusTotal(), sum.GetPools()[0].GetGpusFree(),
	})
	require.EqualValues(t, 2, sum.GetJobsPlaced()+sum.GetJobsQueued())
	_, err = w.pool.Exec(t.Context(), `INSERT INTO job SELECT (jsonb_populate_record(j, '{"id": "job_paused", "run_id": "run_paused", "state": "paused", "paused_at": "2026-11-21T03:00:00Z"}')).* FROM job j LIMIT 1`)
	require.NoError(t, err)
	again, err := w.cluster().GetCluster(w.as(alice()), &jobsv1.GetClusterRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 2, again.GetJobsPlaced()+again.GetJobsQueued(), "a paused job holds no resources")
	_, err = w.pool.Exec(t.Context(), `UPDATE node SET state = 'lost', lost_at = now() WHERE id = $1`, a.nodeID)
	require.NoError(t, err)
	a.cancel()
	sum, err = w.cluster().GetCluster(w.as(alice()), &jobsv1.GetClusterRequest{})
	require.NoError(t, err)
	require.Equal(t, [2]int32{2, 4}, [2]int32{sum.GetGpusTotal(), sum.GetGpusUnhealthy()})
}

func TestListQueueHidesInvisibleJobs(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu", "gpu")
	inSearch := func(r *jobsv1.SubmitJobRequest) { r.Spec.Project, r.Spec.Name = "search", "hidden-name" }
	member := user("carol", authn.RoleOperator, authn.ProjectRole{Project: "prj_search", Role: authn.ProjectEditor})
	hidden, err := w.jobs().SubmitJob(w.as(member), w.request(inSearch, func(r *jobsv1.SubmitJobRequest) { r.Spec.Priority = new(int32(10)) }))
	require.NoError(t, err)
	open := w.submit(oneGPU)
	list := func(as authn.Caller, pool *string, limit int32) []*jobsv1.QueueEntry {
		got, err := w.cluster().ListQueue(w.as(as), &jobsv1.ListQueueRequest{Pool: pool, Limit: &limit})
		require.NoError(t, err)
		return got.GetEntries()
	}
	for name, c := range map[string]struct {
		as   authn.Caller
		seen bool
	}{"other user": {alice(), false}, "owner": {member, true}, "admin": {admin(), true}} {
		entries := list(c.as, nil, 10)
		require.Len(t, entries, 2, name)
		require.Equal(t, open.GetId(), entries[0].GetJobId(), "the job with the higher priority must come first")
		require.Equal(t, []string{"cpu"}, entries[1].GetPools())
		require.Equal(t, c.seen, entries[1].JobId != nil, name)
		require.Equal(t, c.seen, entries[1].Name != nil && entries[1].ReasonDetail != nil, name)
		if c.seen {
			require.Equal(t, []string{hidden.GetId(), "hidden-name"}, []string{entries[1].GetJobId(), entries[1].GetName()})
		}
	}
	gpu := "gpu"
	require.Len(t, list(alice(), &gpu, 10), 1)
	require.Len(t, list(alice(), nil, 1), 1)
	nowhere := "nowhere"
	require.Empty(t, list(alice(), &nowhere, 10))
}

func TestUpdateAndDeleteFleet(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet, other := w.fleet("cpu"), w.fleet("other")
	a := w.join(fleet, cpuNode())
	tok, err := w.fleets().CreateJoinToken(w.as(admin()), &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.NoError(t, err)
	update := func(as authn.Caller, change func(*jobsv1.UpdateFleetRequest)) (*jobsv1.Fleet, error) {
		req := &jobsv1.UpdateFleetRequest{FleetId: fleet.GetId()}
		change(req)
		return w.fleets().UpdateFleet(w.as(as), req)
	}
	name, taken, draining, active := "renamed", other.GetName(), "draining", "active"
	got, err := update(admin(), func(r *jobsv1.UpdateFleetRequest) { r.Name = &name })
	require.NoError(t, err)
	require.Equal(t, name, got.GetName())
	require.Equal(t, []string{"cpu"}, got.GetPools(), "fields that are not set must stay unchanged")
	_, err = update(admin(), func(r *jobsv1.UpdateFleetRequest) { r.Name = &taken })
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	_, err = update(alice(), func(r *jobsv1.UpdateFleetRequest) { r.State = &draining })
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = update(admin(), func(r *jobsv1.UpdateFleetRequest) { r.State = &draining })
	require.NoError(t, err)
	j := w.submit()
	require.Eventually(t, func() bool { return w.get(j.GetId()).GetQueue().GetPosition() == 1 }, patience, 20*time.Millisecond)
	require.Zero(t, w.count(`work`), "a draining fleet must get no new work")
	got, err = update(admin(), func(r *jobsv1.UpdateFleetRequest) { r.State, r.Pools = &active, []string{"cpu", "more"} })
	require.NoError(t, err)
	require.Equal(t, []string{"cpu", "more"}, got.GetPools())
	running := a.attempt()
	a.see(running, jobsv1.Phase_PHASE_RUNNING)

	remove := func(as authn.Caller) error {
		_, err := w.fleets().DeleteFleet(w.as(as), &jobsv1.DeleteFleetRequest{FleetId: fleet.GetId()})
		return err
	}
	require.True(t, fault.Is(remove(alice()), fault.Forbidden))
	require.True(t, fault.Is(remove(admin()), fault.Conflict), "a fleet that still runs work must not be deleted")
	require.Equal(t, 1, w.count(`node`))
	a.exit(running, 0, "", "")
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)
	require.NoError(t, remove(admin()))
	require.True(t, fault.Is(remove(admin()), fault.Absent))
	require.Zero(t, w.count(`node`)+w.count(`join_token`))
	_, err = w.fleets().JoinFleet(w.as(nobody()), &jobsv1.JoinFleetRequest{Token: tok.GetToken(), Hostname: "late", CertificateRequest: "good"})
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.err != nil
	}, patience, 20*time.Millisecond, "the stream of a removed node must end")
	require.Equal(t, 3, w.count(`audit WHERE action = 'fleet.update'`))
	require.Equal(t, 1, w.count(`audit WHERE action = 'fleet.delete'`))
	_, err = w.fleets().UpdateFleet(w.as(admin()), &jobsv1.UpdateFleetRequest{FleetId: fleet.GetId(), Name: &name})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestListAndRevokeJoinTokens(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	three := int32(3)
	tok, err := w.fleets().CreateJoinToken(w.as(admin()), &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId(), MaxUses: &three})
	require.NoError(t, err)
	join := func() error {
		_, err := w.fleets().JoinFleet(w.as(nobody()), &jobsv1.JoinFleetRequest{
			Token: tok.GetToken(), Hostname: "host", CertificateRequest: "good", Inventory: cpuNode(),
		})
		return err
	}
	require.NoError(t, join())
	list := func(as authn.Caller) ([]*jobsv1.JoinToken, error) {
		got, err := w.fleets().ListJoinTokens(w.as(as), &jobsv1.ListJoinTokensRequest{FleetId: fleet.GetId()})
		return got.GetJoinTokens(), err
	}
	_, err = list(alice())
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	tokens, err := list(admin())
	require.NoError(t, err)
	require.Len(t, tokens, 1)
	require.Nil(t, tokens[0].Token)
	require.Empty(t, tokens[0].GetCommand())
	require.Equal(t, [2]int32{3, 1}, [2]int32{tokens[0].GetMaxUses(), tokens[0].GetUses()})
	require.True(t, tokens[0].GetUsable())

	revoke := func(as authn.Caller, fleetID, tokenID string) error {
		_, err := w.fleets().RevokeJoinToken(w.as(as), &jobsv1.RevokeJoinTokenRequest{FleetId: fleetID, JoinTokenId: tokenID})
		return err
	}
	require.True(t, fault.Is(revoke(alice(), fleet.GetId(), tok.GetId()), fault.Forbidden))
	require.True(t, fault.Is(revoke(admin(), fleet.GetId(), w.ids.New(id.JoinToken)), fault.Absent))
	require.True(t, fault.Is(revoke(admin(), w.fleet("x").GetId(), tok.GetId()), fault.Absent), "a token of another fleet must not be found")
	require.True(t, fault.Is(revoke(admin(), fleet.GetId(), "x"), fault.Invalid))
	require.NoError(t, join(), "the token must still be valid")
	for range 2 {
		require.NoError(t, revoke(admin(), fleet.GetId(), tok.GetId()))
	}
	err = join()
	require.True(t, fault.Is(err, fault.Unauthenticated), "a revoked token must be refused: %v", err)
	tokens, err = list(admin())
	require.NoError(t, err)
	require.False(t, tokens[0].GetUsable())
	require.NotNil(t, tokens[0].GetRevokedAt())
	require.Equal(t, 1, w.count(`audit WHERE action = 'join_token.revoke'`))
	require.Equal(t, 2, w.count(`node`), "nodes that joined with the token must stay")
}

// A cordoned node remains cordoned after it was lost and has returned.
func TestCordonSurvivesNodeLoss(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	w.awaitNode(a.nodeID, "ready")
	_, err := w.cluster().CordonNode(w.as(admin()), &jobsv1.CordonNodeRequest{NodeId: a.nodeID})
	require.NoError(t, err)
	a.cancel()
	w.awaitNode(a.nodeID, "lost")
	a.connect()
	w.awaitNode(a.nodeID, "cordoned")
	j := w.submit()
	require.Eventually(t, func() bool { return w.get(j.GetId()).GetQueue().GetPosition() == 1 }, patience, 20*time.Millisecond, "the job must wait in the queue")
}
