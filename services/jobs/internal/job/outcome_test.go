package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestJudge_outcomeTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state    job.State
		reported string
		exit     gang.Exit
		number   int
		want     job.Outcome
	}{
		"succeeded and 0":          {job.Running, "succeeded", gang.Exit{}, 1, job.Outcome{State: job.Succeeded, Reason: "completed"}},
		"succeeded and 1":          {job.Running, "succeeded", gang.Exit{Code: 1}, 1, job.Outcome{State: job.Succeeded, Reason: "completed", Warning: job.WarnExitAfterSuccess}},
		"succeeded and killed":     {job.Running, "succeeded", gang.Exit{Code: -1, Signal: 9}, 1, job.Outcome{State: job.Succeeded, Reason: "completed", Warning: job.WarnExitAfterSuccess}},
		"succeeded and stopped":    {job.Running, "succeeded", gang.Exit{Code: -1, Reason: "stopped"}, 1, job.Outcome{State: job.Succeeded, Reason: "completed", Warning: job.WarnExitAfterSuccess}},
		"no report and 0":          {job.Running, "", gang.Exit{}, 1, job.Outcome{State: job.Succeeded, Reason: "completed", Warning: job.WarnNoReport}},
		"no report and 3":          {job.Starting, "", gang.Exit{Code: 3}, 1, job.Outcome{State: job.Failed, Reason: "user_error", Message: "the command ended with exit code 3"}},
		"no report and signal":     {job.Starting, "", gang.Exit{Code: -1, Signal: 11}, 1, job.Outcome{State: job.Failed, Reason: "user_error", Message: "the command was killed by signal 11"}},
		"failed and 0":             {job.Running, "failed", gang.Exit{}, 1, job.Outcome{State: job.Failed, Reason: "user_error", Message: "loss is NaN"}},
		"failed and lost":          {job.Running, "failed", gang.Exit{Code: -1, Reason: "lost"}, 1, job.Outcome{State: job.Failed, Reason: "user_error", Message: "loss is NaN"}},
		"agent stopped, failed":    {job.Running, "failed", gang.Exit{Code: -1, Reason: "stopped"}, 1, job.Outcome{State: job.Queued, Reason: "executor_lost", Message: "the node's agent stopped the attempt", Planned: true}},
		"agent stopped":            {job.Running, "", gang.Exit{Code: -1, Reason: "stopped"}, 3, job.Outcome{State: job.Queued, Reason: "executor_lost", Message: "the node's agent stopped the attempt", Planned: true}},
		"agent stopped, none left": {job.Running, "", gang.Exit{Code: -1, Reason: "stopped", Message: "ended with the agent"}, 4, job.Outcome{State: job.Queued, Reason: "executor_lost", Message: "ended with the agent", Planned: true}},
		"lost":                     {job.Starting, "", gang.Exit{Code: -1, Reason: "lost"}, 1, job.Outcome{State: job.Queued, Reason: "executor_lost", Message: "the node lost the job's processes"}},
		"lost, no attempts left":   {job.Starting, "", gang.Exit{Code: -1, Reason: "lost"}, 4, job.Outcome{State: job.Failed, Reason: "executor_lost", Message: "the node lost the job's processes"}},
		"fetch":                    {job.Starting, "", gang.Exit{Code: -1, Reason: "fetch", Message: "no route"}, 1, job.Outcome{State: job.Queued, Reason: "fetch_failed", Message: "no route"}},
		"environment":              {job.Starting, "", gang.Exit{Code: -1, Reason: "env_build", Message: "no numpy"}, 1, job.Outcome{State: job.Failed, Reason: "env_build", Message: "no numpy"}},
		"out of memory":            {job.Running, "", gang.Exit{Code: -1, Signal: 9, Reason: "oom_host"}, 1, job.Outcome{State: job.Failed, Reason: "oom_host", Message: "the job exceeded its memory limit"}},
		"command not started":      {job.Starting, "", gang.Exit{Code: -1, Reason: "start"}, 1, job.Outcome{State: job.Failed, Reason: "user_error", Message: "the job's command could not be started"}},
		"batch limit and 0":        {job.Running, "", gang.Exit{Reason: "deadline", Message: "Slurm ended it"}, 1, job.Outcome{State: job.Stopped, Reason: "time_limit", Message: "Slurm ended it"}},
		"batch limit and failed":   {job.Running, "failed", gang.Exit{Code: 1, Reason: "deadline"}, 1, job.Outcome{State: job.Stopped, Reason: "time_limit", Message: "the batch system ended the attempt at its time limit"}},
		"stopping and succeeded":   {job.Stopping, "succeeded", gang.Exit{}, 1, job.Outcome{State: job.Succeeded, Reason: "completed"}},
		"stopping and stopped":     {job.Stopping, "succeeded", gang.Exit{Reason: "stopped"}, 1, job.Outcome{State: job.Stopped, Reason: "user_stop", Message: "stopped by its owner or an editor of its project"}},
		"stopping and lost":        {job.Stopping, "", gang.Exit{Code: -1, Reason: "lost"}, 1, job.Outcome{State: job.Stopped, Reason: "user_stop", Message: "stopped by its owner or an editor of its project"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &job.Job{RetryMax: 3, Status: job.Status{State: c.state, StopReason: job.ReasonUserStop, Retries: c.number - 1}}
			a := &job.Attempt{Number: c.number, ReportedEnd: c.reported}
			if c.reported == "failed" {
				a.ReportedMessage = "loss is NaN"
			}
			require.Equal(t, c.want, job.Judge(j, a, c.exit))
			require.True(t, job.CanMove(c.state, c.want.State), "the outcome is not in Edges")
		})
	}
}

func TestJob_End_requeuesOrFinishes(t *testing.T) {
	t.Parallel()
	now := fixtures.Now()
	j := &job.Job{Status: job.Status{State: job.Running, Attempt: 2, ScheduledAt: &now, StartingAt: &now, RunningAt: &now, ExecutorRunningAt: &now}}
	a := &job.Attempt{Number: 2, State: job.Running}
	j.End(a, gang.Exit{Code: -1, Reason: "lost"}, job.Outcome{State: job.Queued, Reason: "executor_lost"}, now)
	require.Equal(t, job.Queued, j.State)
	require.Equal(t, job.Failed, a.State)
	require.Equal(t, 2, j.Attempt, "the attempt number must not grow before the next placement")
	require.Equal(t, now.Add(time.Second), *j.NotBefore, "the first retry must wait one second")
	require.Equal(t, 1, j.Retries)
	require.Equal(t, job.WaitBackoff, j.Queue.Reason)
	require.Nil(t, j.RunningAt)
	require.Nil(t, j.EndedAt)
	require.Equal(t, -1, *a.ExitCode)

	next, ok := j.Place("att_2", "nod_1", now)
	require.True(t, ok)
	require.Equal(t, 3, next.Number)
	j.End(next, gang.Exit{}, job.Outcome{State: job.Succeeded, Reason: "completed", Warning: job.WarnNoReport}, now)
	require.Equal(t, job.Succeeded, j.State)
	require.Equal(t, []string{job.WarnNoReport}, j.Warnings)
	require.Equal(t, now, *j.EndedAt)
	_, ok = j.Place("att_3", "nod_1", now)
	require.False(t, ok)
}

func TestJob_End_plannedStopDoesNotCount(t *testing.T) {
	t.Parallel()
	now := fixtures.Now()
	saved := &job.Checkpoint{ArtifactID: "art_1"}
	// The spec retries nothing, and a retry would start from the beginning.
	j := &job.Job{RetryOn: []string{job.RetryPreempted}, RetryFrom: job.ResumeNone, BackoffS: 60, Status: job.Status{State: job.Running, Attempt: 1, Checkpoint: saved}}
	a := &job.Attempt{Number: 1, State: job.Running}
	out := job.Judge(j, a, gang.Exit{Code: -1, Reason: "stopped"})
	j.End(a, gang.Exit{Code: -1, Reason: "stopped"}, out, now)
	require.Equal(t, job.Queued, j.State)
	require.Zero(t, j.Retries)
	require.Equal(t, saved, j.Checkpoint)
	require.Equal(t, now.Add(time.Second), *j.NotBefore)
}

func TestBackoff_growsToCap(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Second, job.Backoff(1, 0))
	require.Equal(t, 2*time.Second, job.Backoff(2, 1))
	require.Equal(t, 32*time.Second, job.Backoff(6, 1))
	require.Equal(t, time.Minute, job.Backoff(7, 1))
	require.Equal(t, time.Minute, job.Backoff(1000, 1))
	require.Equal(t, 10*time.Second, job.Backoff(1, 10))
	require.Equal(t, 40*time.Second, job.Backoff(3, 10))
	require.Equal(t, time.Minute, job.Backoff(4, 10))
	require.Equal(t, time.Hour, job.Backoff(1, 3600), "a configured first delay above the cap must be kept")
	require.Equal(t, time.Hour, job.Backoff(9, 3600))
}

func TestStorableText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "…tail", job.StorableText("a long text with a tail", 7), "a text without its beginning is marked")
	require.Equal(t, "whole", job.StorableText("whole", 5))
	require.Equal(t, "ab", job.StorableText("a\x00b\xff", 10))
	require.Equal(t, "…é", job.StorableText("ééé", 5), "a character that is cut in half must be dropped")
	require.Equal(t, "…", job.StorableText("aéé", 4), "a character that is cut in half must be dropped")
}
