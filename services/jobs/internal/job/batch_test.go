package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// heldJob returns a job that a batch system holds for a reason, and its attempt.
func heldJob(t *testing.T) (*job.Job, *job.Attempt) {
	t.Helper()
	j, a := jobIn(t, job.Scheduled, 0)
	j.Hold()
	require.False(t, j.Waits(), "a batch system that has stated no reason is not shown as a queue")
	require.True(t, j.Explain("Priority", "4 jobs ahead"))
	require.False(t, j.Explain("Priority", "4 jobs ahead"))
	require.True(t, j.Waits())
	require.Equal(t, job.Queue{Reason: "Priority", Detail: "4 jobs ahead", Since: fixtures.Now()}, j.Queue)
	return j, a
}

func TestJob_heldUntilStarted(t *testing.T) {
	t.Parallel()
	begun := fixtures.Now().Add(50 * time.Second)
	for name, start := range map[string]func(j *job.Job, a *job.Attempt){
		"executor": func(j *job.Job, a *job.Attempt) {
			j.Observe(a, gang.Gang{Phase: gang.PhasePreparing, Begun: true}, begun)
		},
		"training": func(j *job.Job, a *job.Attempt) { _, _ = j.Report(a, job.ReportStarting, "", begun) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, a := heldJob(t)
			j.Observe(a, gang.Gang{Phase: gang.PhasePending}, begun)
			require.True(t, j.BatchHeld)
			start(j, a)
			require.Equal(t, job.Starting, j.State)
			require.False(t, j.BatchHeld)
			require.Equal(t, job.Queue{Since: fixtures.Now()}, j.Queue)
			require.Equal(t, begun, *j.ScheduledAt, "the start limit counts from now, because the nodes were chosen now")
			require.False(t, j.Explain("Resources", ""), "a job that has started waits for nothing")
			require.Empty(t, j.Overdue(begun.Add(99*time.Second)))
			require.Equal(t, job.ReasonStartTimeout, j.Overdue(begun.Add(100*time.Second)))
		})
	}
}

func TestJob_heldPastQueueLimit(t *testing.T) {
	t.Parallel()
	j, a := heldJob(t)
	j.StartingS = 10
	require.Empty(t, j.Overdue(fixtures.Now().Add(99*time.Second)), "the start limit does not count while the job is held")
	require.Equal(t, job.ReasonQueueTimeout, j.Overdue(fixtures.Now().Add(100*time.Second)))
	_, err := j.Stop(a, job.ReasonQueueTimeout, later())
	require.NoError(t, err)
	require.False(t, j.BatchHeld)
	require.False(t, j.Waits())
	out := job.Judge(j, a, gang.Exit{Code: -1, Reason: gang.ExitStopped})
	require.Equal(t, job.Outcome{State: job.Failed, Reason: job.ReasonQueueTimeout, Message: "the job waited in the queue for more than 100 seconds"}, out)
}

func TestJob_Withdraw_held(t *testing.T) {
	t.Parallel()
	j, _ := heldJob(t)
	j.Withdraw(later())
	require.Equal(t, job.Queued, j.State)
	require.False(t, j.BatchHeld)
	a, ok := j.Place("att_2", "nod_2", later())
	require.True(t, ok)
	require.False(t, j.BatchHeld, "the next attempt may run on hosts")
	j.Hold()
	j.End(a, gang.Exit{Reason: gang.ExitStopped}, job.Judge(j, a, gang.Exit{Reason: gang.ExitStopped}), later())
	require.False(t, j.BatchHeld)
}

func TestAttempt_SeeBatch(t *testing.T) {
	t.Parallel()
	_, a := jobIn(t, job.Scheduled, 0)
	a.SeeBatch("17", nil)
	a.SeeBatch("", []string{"n1"})
	a.SeeBatch("", nil)
	require.Equal(t, "17", a.BatchID)
	require.Equal(t, []string{"n1"}, a.BatchNodes)
	require.Equal(t, 1000*time.Second+20*time.Second+5*time.Second+30*time.Second+10*time.Minute, job.BatchLimit(1000, 20, 5))
}
