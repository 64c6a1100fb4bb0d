package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestJob_Overdue_ownCommandWithoutReports(t *testing.T) {
	t.Parallel()
	started, reported := fixtures.Now().Add(5*time.Second), fixtures.Now().Add(60*time.Second)
	cases := map[string]struct {
		executor, reported *time.Time
		after              time.Duration
		want               string
	}{
		"never started":                  {nil, nil, 10 * time.Second, job.ReasonStartTimeout},
		"started, within its time":       {&started, nil, 104 * time.Second, ""},
		"started, past its time":         {&started, nil, 105 * time.Second, job.ReasonTimeLimit},
		"reported late":                  {&started, &reported, 159 * time.Second, ""},
		"past its time since the report": {&started, &reported, 160 * time.Second, job.ReasonTimeLimit},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _ := placed()
			j.OwnCommand, j.ExecutorRunningAt, j.RunningAt = true, c.executor, c.reported
			require.Equal(t, c.want, j.Overdue(fixtures.Now().Add(c.after)))
		})
	}
	j, _ := placed()
	j.ExecutorRunningAt = &started
	require.Equal(t, job.ReasonStartTimeout, j.Overdue(fixtures.Now().Add(time.Minute)), "a recipe must report running")
}

func TestJob_Observe_ownCommandRunsWithItsProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own      bool
		before   string // lifecycle event that was reported before
		observed gang.Gang
		state    job.State
		event    string
	}{
		"preparing":                {true, "", gang.Gang{Begun: true}, job.Starting, "job.starting"},
		"process runs":             {true, "", gang.Gang{Begun: true, Runs: true}, job.Running, "job.running"},
		"starting reported before": {true, job.ReportStarting, gang.Gang{Begun: true, Runs: true}, job.Starting, "job.executor_running"},
		"running reported before":  {true, job.ReportRunning, gang.Gang{Begun: true, Runs: true}, job.Running, "job.executor_running"},
		"recipe":                   {false, "", gang.Gang{Begun: true, Runs: true}, job.Starting, "job.starting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, a := placed()
			j.OwnCommand = c.own
			if c.before != "" {
				_, err := j.Report(a, c.before, "", fixtures.Now())
				require.NoError(t, err)
			}
			require.Equal(t, c.event, j.Observe(a, c.observed, fixtures.Now()))
			require.Equal(t, []job.State{c.state, c.state}, []job.State{j.State, a.State})
			require.Equal(t, c.before == job.ReportRunning, j.RunningAt != nil, "only a report must start billing")
		})
	}
}

// A command that reports its lifecycle must report the events in order, even after the executor has reported that its
// process runs.
func TestJob_Report_ownCommandAfterItsProcessRuns(t *testing.T) {
	t.Parallel()
	j, a := placed()
	j.OwnCommand = true
	j.Observe(a, gang.Gang{Begun: true, Runs: true}, fixtures.Now())
	applied, err := j.Report(a, job.ReportStarting, "", fixtures.Now())
	require.NoError(t, err)
	require.True(t, applied)
	require.Equal(t, job.Running, j.State, "a job must not move back within an attempt")
	later := fixtures.Now().Add(time.Minute)
	applied, err = j.Report(a, job.ReportRunning, "", later)
	require.NoError(t, err)
	require.True(t, applied)
	require.Equal(t, &later, j.RunningAt)
	_, err = j.Report(a, job.ReportStarting, "", later)
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
}

// A user's own command can be paused before it reports that it is running.
func TestJob_Report_runningWhilePausingKeepsThePause(t *testing.T) {
	t.Parallel()
	j, a := placed()
	j.OwnCommand = true
	j.Observe(a, gang.Gang{Begun: true, Runs: true}, fixtures.Now())
	changed, err := j.Pause(a, "sig_1", fixtures.Now())
	require.NoError(t, err)
	require.True(t, changed)
	applied, err := j.Report(a, job.ReportRunning, "", fixtures.Now())
	require.NoError(t, err)
	require.True(t, applied)
	require.Equal(t, job.Pausing, j.State)
	require.Equal(t, new(fixtures.Now()), j.RunningAt, "billing must start")
}
