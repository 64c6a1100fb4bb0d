package jobs_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// running brings a submitted job to the state running, as its agent and its training process do.
func (w *harness) running(a *agent, j *jobsv1.Job) *jobsv1.Work {
	w.t.Helper()
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	_, err := w.reports(j, work.GetAttempt().GetAttempt(), "running")
	require.NoError(w.t, err)
	return work
}

func (w *harness) checkpoint(j *jobsv1.Job, attempt int32, name, format string) error {
	step := int64(7)
	_, err := w.runPeer().RecordCheckpoint(w.t.Context(), &jobspeerv1.RecordCheckpointRequest{
		RunId: j.GetRunId(), Attempt: attempt, ArtifactId: name, Step: &step, Format: format, Uri: "blob://runs/x/" + name,
		SizeBytes: 3, Sha256: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", CreatedAt: timestamppb.Now(),
	})
	return err
}

func TestPauseAndResumeJob(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	bob := user("bob", authn.RoleOperator)
	pause := func() (*jobsv1.Job, string, error) {
		var head metadata.MD
		got, err := w.jobs().PauseJob(w.as(alice()), &jobsv1.PauseJobRequest{JobId: j.GetId()}, grpc.Header(&head))
		return got, first(head.Get("x-service-status")), err
	}
	_, _, err := pause()
	require.True(t, fault.HasCode(err, "job_state"), "a pause must be refused before the job runs: %v", err)
	work := w.running(a, j)
	_, _, err = pause()
	require.True(t, fault.HasCode(err, "checkpoint"), "a pause must be refused while the job cannot save a checkpoint: %v", err)
	_, err = w.jobs().PauseJob(w.as(bob), &jobsv1.PauseJobRequest{JobId: j.GetId()})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.jobs().ResumeJob(w.as(alice()), &jobsv1.ResumeJobRequest{JobId: j.GetId()})
	require.True(t, fault.HasCode(err, "job_state"), "%v", err)

	watch, err := w.runPeer().WatchSignals(t.Context(), &jobspeerv1.WatchSignalsRequest{})
	require.NoError(t, err)
	pending, err := watch.Recv()
	require.NoError(t, err)
	require.Empty(t, pending.GetSignals())
	next := func(attempt int32) (*jobspeerv1.Signal, error) {
		return w.runPeer().NextSignal(t.Context(), &jobspeerv1.NextSignalRequest{RunId: j.GetRunId(), Attempt: attempt})
	}
	s, err := next(1)
	require.NoError(t, err)
	require.Equal(t, "none", s.GetSignal())
	for range 2 {
		got, status, err := pause()
		require.NoError(t, err, "a pause must be allowed once the process polls for signals")
		require.Equal(t, jobsv1.JobState_JOB_STATE_PAUSING, got.GetState())
		require.Equal(t, "202", status)
	}
	pending, err = watch.Recv()
	require.NoError(t, err)
	s, err = next(1)
	require.NoError(t, err)
	require.Equal(t, "checkpoint", s.GetSignal())
	require.NotNil(t, s.GetDeadline())
	require.Equal(t, map[string]string{j.GetRunId(): s.GetId()}, pending.GetSignals())
	require.NoError(t, w.checkpoint(j, 1, "art_weights", "gguf"))
	ack := func() (*jobspeerv1.Signal, error) {
		return w.runPeer().AckSignal(t.Context(), &jobspeerv1.AckSignalRequest{RunId: j.GetRunId(), Attempt: 1, SignalId: s.GetId()})
	}
	_, err = ack()
	require.True(t, fault.HasCode(err, "checkpoint"), "weights in gguf format must not count as a checkpoint: %v", err)
	require.NoError(t, w.checkpoint(j, 1, "art_state", "npz"))
	after, err := ack()
	require.NoError(t, err)
	require.Equal(t, "pause", after.GetSignal())
	a.wait("desired stopped", stopped)
	a.exit(work, 0, "stopped", "")
	got := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_PAUSED)
	require.NotNil(t, got.GetPausedAt())
	require.Equal(t, "art_state", got.GetCheckpoint().GetArtifactId())
	require.EqualValues(t, 7, got.GetCheckpoint().GetStep())
	require.Empty(t, w.ingest.closed, "the run must not be closed")
	_, _, err = pause()
	require.True(t, fault.HasCode(err, "job_state"), "%v", err)
	a.forget(work)

	got, err = w.jobs().ResumeJob(w.as(alice()), &jobsv1.ResumeJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	require.Equal(t, jobsv1.JobState_JOB_STATE_QUEUED, got.GetState())
	require.Nil(t, got.GetPausedAt())
	again := a.attempt()
	require.EqualValues(t, 2, again.GetAttempt().GetAttempt())
	require.Equal(t, "art_state", again.GetAttempt().GetResume().GetArtifactId())
	require.Equal(t, "blob://runs/x/art_state", again.GetAttempt().GetResume().GetFile().GetUri())
	signed, err := a.client.SignDownload(t.Context(), &jobsv1.SignDownloadRequest{
		WorkId: again.GetWorkId(), Generation: again.GetGeneration(), Fence: again.GetFence(), Uri: "blob://runs/x/art_state",
	})
	require.NoError(t, err, "the node must be allowed to download the checkpoint to resume from")
	require.NotEmpty(t, signed.GetUrl())
	_, err = next(1)
	require.True(t, fault.HasCode(err, "stale_attempt"), "%v", err)
	require.Equal(t, []string{"job.pause", "job.resume", "job.submit"}, w.audited())
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// audited returns the audited actions on jobs, sorted.
func (w *harness) audited() (actions []string) {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), `SELECT action FROM audit WHERE action LIKE 'job.%' ORDER BY action`)
	require.NoError(w.t, err)
	actions, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(w.t, err)
	return actions
}

func TestForcedStopReachesAgent(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := w.running(a, j)
	yes := true
	for _, force := range []*bool{nil, &yes, &yes} {
		got, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId(), Force: force})
		require.NoError(t, err)
		require.Equal(t, jobsv1.JobState_JOB_STATE_STOPPING, got.GetState())
	}
	a.wait("desired stopped with force", func(works []*jobsv1.Work) bool { return stopped(works) && works[0].GetForce() })
	a.exit(work, -1, "stopped", "")
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STOPPED)
	require.Equal(t, []string{"job.stop", "job.stop", "job.submit"}, w.audited(), "only stops that changed something must be audited")
}

// A watch that is opened after a signal was sent receives the signal, and later the end of the signal.
func TestWatchSignalsSendsWholeState(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := w.running(a, j)
	_, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	watch, err := w.runPeer().WatchSignals(t.Context(), &jobspeerv1.WatchSignalsRequest{})
	require.NoError(t, err)
	pending, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, map[string]string{j.GetRunId(): "stop.1"}, pending.GetSignals())
	a.exit(work, 0, "stopped", "")
	pending, err = watch.Recv()
	require.NoError(t, err)
	require.Empty(t, pending.GetSignals())
}

// A drain resumes the jobs that it has paused, but not a job that its owner pauses later.
func TestDrainNodeCheckpoint_ownerPausesLater(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	w.running(a, j)
	w.drain(a.nodeID, jobsv1.DrainMode_DRAIN_MODE_CHECKPOINT, nil)
	require.Eventually(t, func() bool { return w.count(`drain_pause`) == 1 }, patience, 20*time.Millisecond)
	require.Equal(t, jobsv1.JobState_JOB_STATE_RUNNING, w.get(j.GetId()).GetState(), "a job that does not poll for signals cannot be paused")
	_, err := w.runPeer().NextSignal(t.Context(), &jobspeerv1.NextSignalRequest{RunId: j.GetRunId(), Attempt: 1})
	require.NoError(t, err)
	_, err = w.jobs().PauseJob(w.as(alice()), &jobsv1.PauseJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	require.Zero(t, w.count(`drain_pause`), "the drain would resume the job")
}
