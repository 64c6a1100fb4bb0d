package slurm_test

import (
	"testing"

	"github.com/signalbox-dev/signalbox/test/executortest"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
)

// The suite for executors runs on one node of a real cluster, so that one work sees the processes of another. All cases
// of the suite apply. Only the suite for engines does not, because engines do not run on Slurm.
func TestExecutorConformance(t *testing.T) {
	t.Parallel()
	cluster := slurmtest.Start(t, slurmtest.Config{Nodes: 1, Settings: map[string]string{"DefMemPerCPU": "10"}})
	t.Run("suite", func(t *testing.T) {
		executortest.Run(t, func(t *testing.T, dir string, p *executortest.ControlPlane) executortest.Opened {
			t.Helper()
			h, _, closed := open(t, cluster, dir, p, nil, nil)
			return executortest.Opened{Executor: h, Close: closed, Batch: batch(1), Alive: alive}
		})
	})
}
