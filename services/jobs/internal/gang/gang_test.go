package gang_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

func TestCombine(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	running := gang.Observed{Phase: gang.PhaseRunning, PreparingAt: &now, RunningAt: &now}
	collecting := gang.Observed{Phase: gang.PhaseCollecting, PreparingAt: &now, RunningAt: &now}
	exited := func(e gang.Exit) gang.Observed {
		return gang.Observed{Phase: gang.PhaseExited, PreparingAt: &now, RunningAt: &now, Exit: &e}
	}
	for name, c := range map[string]struct {
		nodes []gang.Observed
		want  gang.Gang
	}{
		"no nodes":          {nil, gang.Gang{}},
		"not observed":      {[]gang.Observed{{}}, gang.Gang{}},
		"one preparing":     {[]gang.Observed{{Phase: gang.PhasePreparing}, {}}, gang.Gang{Begun: true}},
		"one running":       {[]gang.Observed{running, {Phase: gang.PhasePreparing}}, gang.Gang{Phase: gang.PhasePreparing, Begun: true}},
		"all running":       {[]gang.Observed{running, running}, gang.Gang{Phase: gang.PhaseRunning, Begun: true, Runs: true}},
		"one exited with 0": {[]gang.Observed{exited(gang.Exit{}), running}, gang.Gang{Phase: gang.PhaseRunning, Begun: true, Runs: true}},
		"one failed":        {[]gang.Observed{running, exited(gang.Exit{Code: 1})}, gang.Gang{Phase: gang.PhaseRunning, Begun: true, Runs: true, Broke: true}},
		"one collecting":    {[]gang.Observed{collecting, running}, gang.Gang{Phase: gang.PhaseRunning, Begun: true, Runs: true}},
		"all collecting": {
			[]gang.Observed{collecting, exited(gang.Exit{})}, gang.Gang{Phase: gang.PhaseCollecting, Begun: true, Runs: true, Ended: true},
		},
		"failure outranks stopped": {
			[]gang.Observed{exited(gang.Exit{Code: -1, Reason: "stopped"}), exited(gang.Exit{Code: 7}), exited(gang.Exit{})},
			gang.Gang{Phase: gang.PhaseExited, Begun: true, Runs: true, Ended: true, Exit: &gang.Exit{Code: 7}},
		},
		"reason outranks exit code": {
			[]gang.Observed{exited(gang.Exit{Code: 7}), exited(gang.Exit{Code: -1, Reason: "oom_host"})},
			gang.Gang{Phase: gang.PhaseExited, Begun: true, Runs: true, Ended: true, Exit: &gang.Exit{Code: -1, Reason: "oom_host"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, gang.Combine(c.nodes))
		})
	}
}

func TestPhaseRank_matchesProto(t *testing.T) {
	t.Parallel()
	for phase, number := range map[string]jobsv1.Phase{
		"": jobsv1.Phase_PHASE_UNSPECIFIED, gang.PhasePending: jobsv1.Phase_PHASE_PENDING,
		gang.PhasePreparing: jobsv1.Phase_PHASE_PREPARING, gang.PhaseRunning: jobsv1.Phase_PHASE_RUNNING,
		gang.PhaseCollecting: jobsv1.Phase_PHASE_COLLECTING, gang.PhaseExited: jobsv1.Phase_PHASE_EXITED, gang.PhaseGone: jobsv1.Phase_PHASE_GONE,
	} {
		require.EqualValues(t, number, gang.PhaseRank(phase), phase)
	}
}
