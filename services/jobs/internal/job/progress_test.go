package job_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func TestAGangIsAsFarAsItsSlowestNode(t *testing.T) {
	t.Parallel()
	now := at()
	running := job.Seen{Phase: job.PhaseRunning, PreparingAt: &now, RunningAt: &now}
	exited := func(e job.Exit) job.Seen {
		return job.Seen{Phase: job.PhaseExited, PreparingAt: &now, RunningAt: &now, Exit: &e}
	}
	for name, c := range map[string]struct {
		nodes []job.Seen
		want  job.Gang
	}{
		"none":            {nil, job.Gang{}},
		"told":            {[]job.Seen{{}}, job.Gang{}},
		"one begins":      {[]job.Seen{{Phase: job.PhasePreparing}, {}}, job.Gang{Begun: true}},
		"one runs":        {[]job.Seen{running, {Phase: job.PhasePreparing}}, job.Gang{Phase: job.PhasePreparing, Begun: true}},
		"all run":         {[]job.Seen{running, running}, job.Gang{Phase: job.PhaseRunning, Begun: true, Runs: true}},
		"one ended well":  {[]job.Seen{exited(job.Exit{}), running}, job.Gang{Phase: job.PhaseRunning, Begun: true, Runs: true}},
		"one ended badly": {[]job.Seen{running, exited(job.Exit{Code: 1})}, job.Gang{Phase: job.PhaseRunning, Begun: true, Runs: true, Broke: true}},
		"the cause counts": {
			[]job.Seen{exited(job.Exit{Code: -1, Reason: "stopped"}), exited(job.Exit{Code: 7}), exited(job.Exit{})},
			job.Gang{Phase: job.PhaseExited, Begun: true, Runs: true, Exit: &job.Exit{Code: 7}},
		},
		"a reason explains most": {
			[]job.Seen{exited(job.Exit{Code: 7}), exited(job.Exit{Code: -1, Reason: "oom_host"})},
			job.Gang{Phase: job.PhaseExited, Begun: true, Runs: true, Exit: &job.Exit{Code: -1, Reason: "oom_host"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, job.Combine(c.nodes))
		})
	}
}

func TestObserveMarksOnceAndNeverGoesBack(t *testing.T) {
	t.Parallel()
	j, a := placed()
	require.Empty(t, j.Observe(a, job.Gang{Phase: job.PhasePending}, at()))
	require.Equal(t, "job.starting", j.Observe(a, job.Gang{Phase: job.PhasePreparing, Begun: true}, at()))
	require.Equal(t, job.Starting, j.State)
	require.Empty(t, j.Observe(a, job.Gang{Phase: job.PhasePreparing, Begun: true}, at()))
	require.Equal(t, "job.executor_running", j.Observe(a, job.Gang{Phase: job.PhaseRunning, Begun: true, Runs: true}, at()))
	require.Equal(t, at(), *j.ExecutorRunningAt)
	require.Nil(t, j.RunningAt)
	require.Empty(t, j.Observe(a, job.Gang{Phase: job.PhaseCollecting, Begun: true, Runs: true}, at()))
	require.Equal(t, job.PhaseCollecting, a.Phase)
}

func TestPhasesAreTheContractsNumbers(t *testing.T) {
	t.Parallel()
	for phase, number := range map[string]jobsv1.Phase{
		"": jobsv1.Phase_PHASE_UNSPECIFIED, job.PhasePending: jobsv1.Phase_PHASE_PENDING,
		job.PhasePreparing: jobsv1.Phase_PHASE_PREPARING, job.PhaseRunning: jobsv1.Phase_PHASE_RUNNING,
		job.PhaseCollecting: jobsv1.Phase_PHASE_COLLECTING, job.PhaseExited: jobsv1.Phase_PHASE_EXITED, job.PhaseGone: jobsv1.Phase_PHASE_GONE,
	} {
		require.EqualValues(t, number, job.PhaseRank(phase), phase)
	}
}
