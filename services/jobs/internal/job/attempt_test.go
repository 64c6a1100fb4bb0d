package job_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func TestJob_Observe_setsTimesOnce(t *testing.T) {
	t.Parallel()
	j, a := placed()
	require.Empty(t, j.Observe(a, gang.Gang{Phase: gang.PhasePending}, at()))
	require.Equal(t, "job.starting", j.Observe(a, gang.Gang{Phase: gang.PhasePreparing, Begun: true}, at()))
	require.Equal(t, job.Starting, j.State)
	require.Empty(t, j.Observe(a, gang.Gang{Phase: gang.PhasePreparing, Begun: true}, at()))
	require.Equal(t, "job.executor_running", j.Observe(a, gang.Gang{Phase: gang.PhaseRunning, Begun: true, Runs: true}, at()))
	require.Equal(t, at(), *j.ExecutorRunningAt)
	require.Nil(t, j.RunningAt)
	require.Empty(t, j.Observe(a, gang.Gang{Phase: gang.PhaseCollecting, Begun: true, Runs: true}, at()))
	require.Equal(t, gang.PhaseCollecting, a.Phase)
}
