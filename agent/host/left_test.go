package host_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// shimOf waits until the attempt's command runs, and returns its processes.
func (a *attempt) shimOf() shim.Running {
	a.Helper()
	a.reach(executor.PhaseRunning)
	var r shim.Running
	require.Eventually(a, func() bool {
		var err error
		r, err = shim.Control{Clock: clock.Real()}.Running(a.path("run"))
		return err == nil && r.Command.PID != 0
	}, time.Minute, 5*time.Millisecond)
	return r
}

// The table lists how an attempt ends between two executors. The attempt counts as lost only if its end was not
// planned.
func TestShutdown_leftWorkEndsBeforeNextExecutor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		planned bool
		signal  syscall.Signal
		want    executor.Reason
	}{
		"machine shut down":            {true, syscall.SIGTERM, executor.ReasonStopped},
		"container stopped":            {true, syscall.SIGKILL, executor.ReasonStopped},
		"agent killed, shim stopped":   {false, syscall.SIGTERM, executor.ReasonLost},
		"agent killed and shim killed": {false, syscall.SIGKILL, executor.ReasonLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt(t, "sleep 300", nil)
			a.apply()
			r := a.shimOf()
			if c.planned {
				require.NoError(t, a.host.Shutdown(t.Context(), false))
			}
			a.stop()
			require.True(t, r.Shim.Alive(), "the work must outlive the executor")
			require.True(t, r.Shim.Signal(c.signal))
			require.NoError(t, r.Shim.Wait(t.Context()))
			a.host, a.stop = open(t, a.dir, a.plane, nil)
			require.Equal(t, c.want, a.reach(executor.PhaseExited).Exit.Reason)
		})
	}
}

func TestShutdown_adoptedWorkCountsAgain(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "sleep 300", nil)
	a.apply()
	before := a.shimOf()
	require.NoError(t, a.host.Shutdown(t.Context(), false))
	require.FileExists(t, a.path("left.json"))
	a.stop()
	a.host, a.stop = open(t, a.dir, a.plane, nil)
	require.Eventually(t, func() bool {
		_, err := os.Stat(a.path("left.json"))
		return os.IsNotExist(err)
	}, time.Minute, 5*time.Millisecond, "the next executor must take the work back")
	require.Equal(t, before, a.shimOf(), "the processes must be the same")
	require.True(t, before.Shim.Signal(syscall.SIGKILL))
	require.Equal(t, executor.ReasonLost, a.reach(executor.PhaseExited).Exit.Reason, "a work whose shim is killed later must count as lost")
}
