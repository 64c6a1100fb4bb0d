package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// ownCommand returns a change that makes a submission run the user's own command, which reports nothing.
func ownCommand(limits *jobsv1.Limits) func(*jobsv1.SubmitJobRequest) {
	return func(r *jobsv1.SubmitJobRequest) {
		r.Spec.Source = &jobsv1.Source{Command: []string{"sh", "-c", "sleep 7200"}}
		r.Spec.Recipe = &jobsv1.RecipeRef{Name: "custom/custom", Version: "1.0.0", Lock: &jobsv1.RecipeLock{
			Api: "service/v1", Name: "custom/custom", Version: "1.0.0", Digest: "sha256:c1",
			Framework: &jobsv1.RecipeLockFramework{RuntimeId: "any"},
		}}
		r.Spec.Hparams, r.Spec.Bindings, r.Spec.Limits = nil, nil, limits
	}
}

func TestOwnCommandRunningLimit(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	hour, day := int32(3600), int32(86_400)
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit(ownCommand(&jobsv1.Limits{StartingS: &hour, RunningS: &day}))
	work := a.attempt()
	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	w.awaitJob(j.GetId(), "seen to run", func(j *jobsv1.Job) bool { return j.GetExecutorRunningAt() != nil })
	shift := func(by string) {
		_, err := w.pool.Exec(t.Context(), `UPDATE job SET scheduled_at = scheduled_at - $2::interval,
			executor_running_at = executor_running_at - $2::interval WHERE id = $1`, j.GetId(), by)
		require.NoError(t, err)
	}
	shift("23 hours")
	other := w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Limits = &jobsv1.Limits{StartingS: &hour} })
	second := a.attempt()
	a.see(second, jobsv1.Phase_PHASE_RUNNING)
	_, err := w.pool.Exec(t.Context(), `UPDATE job SET scheduled_at = scheduled_at - interval '1 hour' WHERE id = $1`, other.GetId())
	require.NoError(t, err)
	w.awaitJob(other.GetId(), "stopped by the same pass that leaves the first job running", func(j *jobsv1.Job) bool {
		return j.GetState() == jobsv1.JobState_JOB_STATE_STOPPING
	})
	got := w.get(j.GetId())
	require.Equal(t, jobsv1.JobState_JOB_STATE_RUNNING, got.GetState(), "the start must not time out, because a user's own command need not report")
	require.Nil(t, got.GetRunningAt(), "nothing must be billed without a report")
	require.Equal(t, 1, w.count(`event WHERE subject_id = '`+j.GetId()+`' AND type = 'job.running' AND to_state = 'running'`))

	shift("1 hour")
	w.awaitJob(j.GetId(), "to be stopped", func(j *jobsv1.Job) bool { return j.GetState() == jobsv1.JobState_JOB_STATE_STOPPING })
	a.exit(work, -1, "stopped", "")
	ended := w.await(j.GetId(), jobsv1.JobState_JOB_STATE_STOPPED)
	require.Equal(t, "time_limit", ended.GetEndReason())
	require.Contains(t, ended.GetMessage(), "more than 86400 seconds")
}
