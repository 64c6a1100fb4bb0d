package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func placed() (*job.Job, *job.Attempt) {
	now := fixtures.Now()
	j := &job.Job{ID: "job_1", RetryMax: 3, RunningS: 100, StartingS: 10, QueueS: 1000, Status: job.Status{
		State: job.Scheduled, Attempt: 1, ScheduledAt: &now,
	}}
	return j, &job.Attempt{Number: 1, State: job.Scheduled}
}

func TestJob_Report_eventOrder(t *testing.T) {
	t.Parallel()
	for events, want := range map[string]struct {
		last  string // applied, same or conflict
		state job.State
	}{
		"starting":                    {"applied", job.Starting},
		"starting starting":           {"same", job.Starting},
		"running":                     {"applied", job.Running},
		"starting running":            {"applied", job.Running},
		"running running":             {"same", job.Running},
		"running starting":            {"conflict", job.Running},
		"starting running starting":   {"conflict", job.Running},
		"succeeded":                   {"applied", job.Scheduled},
		"running succeeded":           {"applied", job.Running},
		"running succeeded succeeded": {"same", job.Running},
		"running succeeded failed":    {"conflict", job.Running},
		"running succeeded running":   {"conflict", job.Running},
		"running failed failed":       {"same", job.Running},
		"failed starting":             {"conflict", job.Scheduled},
	} {
		t.Run(events, func(t *testing.T) {
			t.Parallel()
			j, a := placed()
			var applied bool
			var err error
			for i, event := range strings.Fields(events) {
				applied, err = j.Report(a, event, "", fixtures.Now().Add(time.Duration(i)*time.Second))
			}
			switch want.last {
			case "applied":
				require.NoError(t, err)
				require.True(t, applied)
			case "same":
				require.NoError(t, err)
				require.False(t, applied)
			default:
				require.True(t, fault.Is(err, fault.Conflict), "%v", err)
			}
			require.Equal(t, want.state, j.State)
		})
	}
}

func TestFirstRunningReportStartsBilling(t *testing.T) {
	t.Parallel()
	j, a := placed()
	_, err := j.Report(a, "running", "", fixtures.Now())
	require.NoError(t, err)
	_, err = j.Report(a, "running", "", fixtures.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, fixtures.Now(), *a.RunningAt)
	require.Equal(t, fixtures.Now(), *j.RunningAt)
	require.Nil(t, a.ExecutorRunningAt, "the training's report must not set the executor's time")
}

func TestJob_Report_endedAttemptOrUnknownEvent(t *testing.T) {
	t.Parallel()
	j, a := placed()
	_, err := j.Report(a, "paused", "", fixtures.Now())
	require.True(t, fault.Is(err, fault.Invalid))
	_, err = j.Report(a, "failed", "boom", fixtures.Now())
	require.NoError(t, err)
	j.End(a, gang.Exit{Code: 1}, job.Judge(j, a, gang.Exit{Code: 1}), fixtures.Now())
	require.Equal(t, "boom", j.Message)
	applied, err := j.Report(a, "failed", "", fixtures.Now())
	require.NoError(t, err)
	require.False(t, applied)
	_, err = j.Report(a, "succeeded", "", fixtures.Now())
	require.True(t, fault.Is(err, fault.Conflict))

	j, a = placed()
	j.End(a, gang.Exit{}, job.Outcome{State: job.Succeeded, Reason: "completed"}, fixtures.Now())
	_, err = j.Report(a, "running", "", fixtures.Now())
	require.True(t, fault.Is(err, fault.Conflict))
}

func TestStoppingJobStaysStoppingOnReport(t *testing.T) {
	t.Parallel()
	j, a := placed()
	changed, err := j.Stop(a, job.ReasonUserStop, fixtures.Now())
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, job.Stopping, j.State)
	_, err = j.Report(a, "running", "", fixtures.Now())
	require.NoError(t, err)
	require.Equal(t, job.Stopping, j.State)
	require.NotNil(t, a.RunningAt)
	changed, err = j.Stop(a, job.ReasonAdminStop, fixtures.Now())
	require.NoError(t, err)
	require.False(t, changed, "a repeated stop must change nothing")
	require.Equal(t, job.ReasonUserStop, j.StopReason)
}

// A stop that comes when the processes have ended sends no signal, so it does not change how the job ends. It prevents
// another attempt.
func TestJob_Stop_endedProcesses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exit gang.Exit
		want job.State
	}{
		"exit 0":          {gang.Exit{}, job.Succeeded},
		"exit 1":          {gang.Exit{Code: 1}, job.Failed},
		"out of memory":   {gang.Exit{Code: -1, Reason: gang.ExitOOMHost}, job.Failed},
		"node lost":       {gang.Exit{Code: -1, Reason: gang.ExitLost}, job.Stopped},
		"stopped before":  {gang.Exit{Code: -1, Reason: gang.ExitStopped}, job.Stopped},
		"another attempt": {gang.Exit{Code: 3}, job.Stopped},
	} {
		j, a := placed()
		j.RetryMax, j.RetryCodes = 1, []int32{3}
		a.Phase, a.HeardSignal = gang.PhaseCollecting, "stop.1"
		changed, err := j.Stop(a, job.ReasonUserStop, fixtures.Now())
		require.NoError(t, err)
		require.True(t, changed)
		require.Equal(t, job.SignalNone, j.CurrentSignal().Signal, name)
		j.End(a, c.exit, job.Judge(j, a, c.exit), fixtures.Now())
		require.Equal(t, c.want, j.State, name)
	}
}

func TestJob_Stop_queuedOrEndedJob(t *testing.T) {
	t.Parallel()
	j := &job.Job{ID: "job_1", Status: job.Status{State: job.Queued}}
	_, err := j.Stop(nil, job.ReasonUserStop, fixtures.Now())
	require.NoError(t, err)
	require.Equal(t, job.Stopped, j.State)
	require.Equal(t, job.ReasonUserStop, j.EndReason)
	require.NotNil(t, j.EndedAt)
	for _, state := range []job.State{job.Succeeded, job.Failed, job.Stopped} {
		j.State = state
		_, err = j.Stop(nil, job.ReasonUserStop, fixtures.Now())
		require.True(t, fault.Is(err, fault.Conflict))
		require.Contains(t, fault.From(err).Text(), string(state))
	}
}

func TestJob_Overdue_limits(t *testing.T) {
	t.Parallel()
	j, a := placed()
	require.Empty(t, j.Overdue(fixtures.Now().Add(9*time.Second)))
	require.Equal(t, job.ReasonStartTimeout, j.Overdue(fixtures.Now().Add(10*time.Second)))
	_, err := j.Report(a, "running", "", fixtures.Now().Add(5*time.Second))
	require.NoError(t, err)
	require.Empty(t, j.Overdue(fixtures.Now().Add(104*time.Second)))
	require.Equal(t, job.ReasonTimeLimit, j.Overdue(fixtures.Now().Add(105*time.Second)))

	q := &job.Job{QueueS: 60, Status: job.Status{State: job.Queued, Queue: job.Queue{Since: fixtures.Now()}}}
	require.Empty(t, q.Overdue(fixtures.Now().Add(time.Hour)))
	require.False(t, q.ExpireQueue(fixtures.Now().Add(59*time.Second)))
	require.True(t, q.ExpireQueue(fixtures.Now().Add(time.Minute)))
	require.Equal(t, job.Failed, q.State)
	require.Equal(t, job.ReasonQueueTimeout, q.EndReason)
}
