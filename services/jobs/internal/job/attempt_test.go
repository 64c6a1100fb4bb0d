package job_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestJob_Observe_setsTimesOnce(t *testing.T) {
	t.Parallel()
	j, a := placed()
	require.Empty(t, j.Observe(a, gang.Gang{Phase: gang.PhasePending}, fixtures.Now()))
	require.Equal(t, "job.starting", j.Observe(a, gang.Gang{Phase: gang.PhasePreparing, Begun: true}, fixtures.Now()))
	require.Equal(t, job.Starting, j.State)
	require.Empty(t, j.Observe(a, gang.Gang{Phase: gang.PhasePreparing, Begun: true}, fixtures.Now()))
	require.Equal(t, "job.executor_running", j.Observe(a, gang.Gang{Phase: gang.PhaseRunning, Begun: true, Runs: true}, fixtures.Now()))
	require.Equal(t, fixtures.Now(), *j.ExecutorRunningAt)
	require.Nil(t, j.RunningAt)
	require.Empty(t, j.Observe(a, gang.Gang{Phase: gang.PhaseCollecting, Begun: true, Runs: true}, fixtures.Now()))
	require.Equal(t, gang.PhaseCollecting, a.Phase)
}
