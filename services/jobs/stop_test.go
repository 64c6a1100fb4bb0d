package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func stopped(works []*jobsv1.Work) bool {
	return len(works) == 1 && works[0].GetDesired() == jobsv1.Desired_DESIRED_STOPPED
}

func TestStopRunningJobWaitsForAgent(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	for range 2 {
		got, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
		require.NoError(t, err)
		require.Equal(t, jobsv1.JobState_JOB_STATE_STOPPING, got.GetState())
	}
	a.wait("desired stopped", stopped)
	require.Equal(t, jobsv1.JobState_JOB_STATE_STOPPING, w.get(j.GetId()).GetState())
	_, err := w.reports(j, 1, "failed")
	require.NoError(t, err, "a training process must be allowed to report that it was stopped")
	a.exit(work, -1, "stopped", "")
	ended := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STOPPED)
	require.Equal(t, "user_stop", ended.GetEndReason())
	_, err = w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
	require.True(t, fault.Is(err, fault.Conflict))
	require.Equal(t, "stopped", (<-w.ingest.closed).GetState())
	require.Equal(t, 1, w.count(`audit WHERE action = 'job.stop'`), "only the stop that changed something must be audited")
}

func TestStopBeforeAgentReports(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	a.attempt() // received, but the agent never reports it
	_, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	a.wait("desired stopped", stopped)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for w.get(j.GetId()).GetState() != jobsv1.JobState_JOB_STATE_STOPPED {
		a.report()
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			require.FailNow(t, "the job was never stopped")
		}
	}
}

func TestTimeLimitsEndJobs(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	hour := int32(3600)
	past := func(mark string, j *jobsv1.Job) {
		_, err := w.pool.Exec(t.Context(), `UPDATE job SET `+mark+` = `+mark+` - interval '1 hour' WHERE id = $1`, j.GetId())
		require.NoError(t, err)
	}
	a := w.join(w.fleet("cpu", "other"), cpuNode())
	slow := w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Limits = &jobsv1.Limits{StartingS: &hour} })
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	past("scheduled_at", slow)
	a.wait("desired stopped", stopped)
	a.exit(work, -1, "stopped", "")
	ended := w.await(slow.GetId(), jobsv1.JobState_JOB_STATE_STOPPED)
	require.Equal(t, "start_timeout", ended.GetEndReason())
	require.Contains(t, ended.GetMessage(), "within 3600 seconds")

	long := w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Limits = &jobsv1.Limits{RunningS: &hour} })
	a.forget(work)
	work = a.attempt()
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	_, err := w.reports(long, 1, "running")
	require.NoError(t, err)
	past("running_at", long)
	a.wait("desired stopped", stopped)
	a.exit(work, -1, "stopped", "")
	require.Equal(t, "time_limit", w.await(long.GetId(), jobsv1.JobState_JOB_STATE_STOPPED).GetEndReason())

	w.fleet("nowhere")
	waits := w.submit(func(r *jobsv1.SubmitJobRequest) {
		r.Spec.Limits = &jobsv1.Limits{QueuedS: &hour}
		r.Spec.Resources.Pools[0].Pool = "nowhere"
	})
	past("queued_at", waits)
	require.Equal(t, "queue_timeout", w.await(waits.GetId(), jobsv1.JobState_JOB_STATE_FAILED).GetEndReason())
}
