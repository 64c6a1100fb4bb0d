package jobs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

func (w *harness) attempts(jobID string) []*jobsv1.Attempt {
	w.t.Helper()
	resp, err := w.jobs().ListAttempts(w.as(alice()), &jobsv1.ListAttemptsRequest{JobId: jobID})
	require.NoError(w.t, err)
	return resp.GetAttempts()
}

func TestServiceRestartKeepsWork(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := a.attempt()
	for _, phase := range []jobsv1.Phase{jobsv1.Phase_PHASE_PREPARING, jobsv1.Phase_PHASE_RUNNING} {
		a.see(work, phase)
		w.awaitJob(j.GetId(), "seen", func(j *jobsv1.Job) bool {
			return j.GetState() == jobsv1.JobState_JOB_STATE_STARTING && (phase < jobsv1.Phase_PHASE_RUNNING || j.GetExecutorRunningAt() != nil)
		})
		before := w.get(j.GetId())
		w.stop()
		w.start()
		require.Empty(t, cmp.Diff(before, w.get(j.GetId()), protocmp.Transform()))
		a.connect()
		again := a.wait("the same work", func(works []*jobsv1.Work) bool { return len(works) == 1 })
		require.Empty(t, cmp.Diff(work, again[0], protocmp.Transform()), "the agent must receive the same execution")
	}
	_, err := w.reports(j, 1, "succeeded")
	require.NoError(t, err)
	w.stop()
	w.start()
	a.works[work.GetWorkId()].Phase = jobsv1.Phase_PHASE_EXITED
	a.works[work.GetWorkId()].Exit = &jobsv1.Exit{}
	a.connect()
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)
	require.Len(t, w.attempts(j.GetId()), 1)
}

func TestFailedCloseRetriedAfterRestart(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	w.ingest.mu.Lock()
	w.ingest.fails = 2
	w.ingest.mu.Unlock()
	j := w.submit()
	_, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	w.stop()
	w.start()
	select {
	case closed := <-w.ingest.closed:
		require.Equal(t, j.GetRunId(), closed.GetRunId())
	case <-time.After(patience):
		require.FailNow(t, "the run was never closed")
	}
}

// The job ends after its run is closed. Until then it keeps its state, even if the service is restarted.
func TestEndWaitsForClosingAcrossRestart(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	w.ingest.mu.Lock()
	w.ingest.fails = 1 << 30
	w.ingest.mu.Unlock()
	a.exit(work, 0, "", "")
	a.wait("desired gone", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetDesired() == jobsv1.Desired_DESIRED_GONE
	})
	got := w.get(j.GetId())
	require.Equal(t, jobsv1.JobState_JOB_STATE_STARTING, got.GetState())
	require.Nil(t, got.GetEndedAt())
	require.Nil(t, got.Collected)
	w.stop()
	w.ingest.mu.Lock()
	w.ingest.fails = 0
	w.ingest.mu.Unlock()
	w.start()
	ended := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)
	require.True(t, ended.GetCollected())
	closed := <-w.ingest.closed
	require.Equal(t, "succeeded", closed.GetState())
	require.Equal(t, ended.GetEndedAt().AsTime(), closed.GetEndedAt().AsTime())
}

func TestShortNodeSilenceKeepsAttempt(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	w.awaitJob(j.GetId(), "marked as running by the executor", func(j *jobsv1.Job) bool { return j.GetExecutorRunningAt() != nil })
	a.cancel()
	w.nodeState(a.nodeID, "lost")
	require.Equal(t, jobsv1.JobState_JOB_STATE_STARTING, w.get(j.GetId()).GetState())
	a.connect()
	w.nodeState(a.nodeID, "ready")
	again := a.wait("the same work", func(works []*jobsv1.Work) bool { return len(works) == 1 })
	require.Empty(t, cmp.Diff(work, again[0], protocmp.Transform()))
	require.Len(t, w.attempts(j.GetId()), 1)
}

// nodeState waits until the API returns a node in the given state.
func (w *harness) nodeState(nodeID, state string) {
	w.t.Helper()
	client := w.fleets()
	require.Eventually(w.t, func() bool {
		resp, err := client.ListNodes(w.as(alice()), &jobsv1.ListNodesRequest{})
		require.NoError(w.t, err)
		return slices.ContainsFunc(resp.GetNodes(), func(n *jobsv1.Node) bool { return n.GetId() == nodeID && n.GetState() == state })
	}, patience, 50*time.Millisecond, state)
}

// quickFence shortens the time for which a service that has just started waits until it gives up the works of nodes.
func quickFence(c *jobs.Config) { c.FenceTimeout = 10 * time.Second }

// fence ends the stream of an agent and waits until its node is lost. It then changes lost_at of the node to a time
// before the fence timeout, and waits until the node's work is released.
func (w *harness) fence(a *agent) {
	w.t.Helper()
	a.cancel()
	require.Eventually(w.t, func() bool {
		_, err := w.pool.Exec(w.t.Context(), `UPDATE node SET lost_at = lost_at - interval '1 hour' WHERE id = $1 AND state = 'lost'`, a.nodeID)
		require.NoError(w.t, err)
		return w.count(`work WHERE node_id = '`+a.nodeID+`' AND released_at IS NULL`) == 0
	}, patience, 50*time.Millisecond)
}

func TestFencedNodeWorkMoves(t *testing.T) {
	t.Parallel()
	w := newHarness(t, quickFence)
	fleet := w.fleet("cpu")
	a := w.join(fleet, cpuNode())
	j := w.submit()
	first := a.attempt()
	a.see(first, jobsv1.Phase_PHASE_RUNNING)
	_, err := w.reports(j, 1, "running")
	require.NoError(t, err)
	w.fence(a)
	w.awaitJob(j.GetId(), "queued again", func(j *jobsv1.Job) bool {
		return j.GetState() == jobsv1.JobState_JOB_STATE_QUEUED && j.GetAttempt() == 1
	})
	b := w.join(fleet, cpuNode())
	second := b.attempt()
	require.EqualValues(t, 2, second.GetAttempt().GetAttempt())
	require.NotEqual(t, first.GetWorkId(), second.GetWorkId())
	attempts := w.attempts(j.GetId())
	require.Len(t, attempts, 2)
	require.Equal(t, "executor_lost", attempts[0].GetEndReason())
	require.NotNil(t, attempts[0].GetRunningAt(), "the lost attempt must keep its own times")
	require.Nil(t, w.get(j.GetId()).GetRunningAt())

	// The first node returns with running processes. It must stop them, and its reports are ignored.
	a.connect()
	a.wait("the fenced work desired gone", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetWorkId() == first.GetWorkId() && works[0].GetDesired() == jobsv1.Desired_DESIRED_GONE
	})
	a.exit(first, 0, "", "")
	_, err = w.reports(j, 1, "succeeded")
	require.True(t, fault.Is(err, fault.Conflict), "reports of an earlier attempt must be refused: %v", err)
	_, err = a.client.MintIngestToken(t.Context(), &jobsv1.MintIngestTokenRequest{
		WorkId: first.GetWorkId(), Generation: first.GetGeneration(), Fence: first.GetFence(),
	})
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	b.see(second, jobsv1.Phase_PHASE_RUNNING)
	b.exit(second, 0, "", "")
	require.EqualValues(t, 2, w.await(j.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED).GetAttempt())
}

func TestUnacknowledgedPlacementKeepsAttemptNumber(t *testing.T) {
	t.Parallel()
	w := newHarness(t, quickFence)
	fleet := w.fleet("cpu")
	a := w.join(fleet, cpuNode())
	j := w.submit()
	a.attempt()
	w.fence(a)
	w.awaitJob(j.GetId(), "withdrawn", func(j *jobsv1.Job) bool {
		return j.GetState() == jobsv1.JobState_JOB_STATE_QUEUED && j.GetAttempt() == 0 && j.GetQueue().GetReason() == "pool_capacity"
	})
	require.Empty(t, w.attempts(j.GetId()))
	b := w.join(fleet, cpuNode())
	require.EqualValues(t, 1, b.attempt().GetAttempt().GetAttempt())
}

func TestStoppedAgentGetsNextAttempt(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	first := a.attempt()
	a.see(first, jobsv1.Phase_PHASE_RUNNING)
	a.exit(first, -1, "stopped", "")
	second := a.attempt()
	require.EqualValues(t, 2, second.GetAttempt().GetAttempt())
	a.forget(first)
	// If an agent loses its state, the attempt ends as lost and does not run twice.
	a.see(second, jobsv1.Phase_PHASE_RUNNING)
	w.awaitJob(j.GetId(), "marked as running by the executor", func(j *jobsv1.Job) bool { return j.GetAttempt() == 2 && j.GetExecutorRunningAt() != nil })
	a.forget(second)
	a.wait("attempt 3", func(works []*jobsv1.Work) bool {
		return len(works) == 1 && works[0].GetAttempt().GetAttempt() == 3
	})
	require.Equal(t, "executor_lost", w.attempts(j.GetId())[1].GetEndReason())
}

func TestEnvironmentBuildFailureEndsJob(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_PREPARING)
	a.exit(work, -1, "env_build", "ERROR: No matching distribution found for numpy==2")
	ended := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_FAILED)
	require.Equal(t, "env_build", ended.GetEndReason())
	require.Equal(t, "ERROR: No matching distribution found for numpy==2", ended.GetMessage())
	require.EqualValues(t, -1, w.attempts(j.GetId())[0].GetExitCode())
	require.Equal(t, "failed", (<-w.ingest.closed).GetState())
}
