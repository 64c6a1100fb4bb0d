package slurm_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
)

// isolated makes the works of the executor isolated.
func (b *harness) isolated() {
	b.Helper()
	b.change = func(c *host.Config) { c.Isolate = true }
	b.reopen()
}

// A rank is isolated on its node: it has a user of its own and does not see the agent's files.
func TestIsolatedRanks(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 2})
	b.isolated()
	w := b.attempt("wrk_a", `echo uid=$(id -u) host=$(hostname); cat `+filepath.Join(b.dir, "works", "wrk_a.1.1", "assignment.json")+` && echo seen; echo x > "$SERVICE_JOB_WORKDIR/x" && cat "$SERVICE_JOB_WORKDIR/x"`, 2)
	b.apply(w)
	require.Equal(t, executor.Exit{}, b.exit(w.Key))
	for rank := range 2 {
		text, _ := b.plane.RankLogs(w.Key, rank)
		require.NotEqual(t, "0", fields(text)["uid"], text)
		require.Equal(t, "n"+itoa(rank+1), fields(text)["host"], text)
		require.NotContains(t, text, "seen")
		require.Contains(t, text, "\nx\n")
	}
}

// The agent tests each pool once, on a node of its partition.
func TestPools(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1, GPUs: 4})
	b.isolated()
	pools := []executor.Pool{
		{Name: "elsewhere", Slurm: executor.SlurmPool{Partition: "gpu", Folder: "/elsewhere"}},
		{Name: "gpu", Slurm: executor.SlurmPool{Partition: "gpu", Folder: "/"}},
		{Name: "missing", Slurm: executor.SlurmPool{Partition: "missing", Folder: "/"}},
	}
	b.runner.SetPools(pools)
	b.until("all pools are tested", func() bool { return len(b.runner.Report().Pools) == len(pools) })
	tested := b.runner.Report().Pools
	require.Contains(t, tested[0].Problem, "the folder of the pool is /elsewhere")
	require.Empty(t, tested[0].Isolation)
	require.Empty(t, tested[1].Problem)
	require.Equal(t, "own_user", tested[1].Isolation)
	require.False(t, tested[1].TestedAt.IsZero())
	require.Contains(t, tested[2].Problem, "invalid partition")
	jobs := len(b.cluster.Jobs(t.Context()))
	b.reopen()
	b.runner.SetPools(pools)
	b.until("the results are known again", func() bool { return len(b.runner.Report().Pools) == len(pools) })
	require.Len(t, b.cluster.Jobs(t.Context()), jobs, "a pool must not be tested again")
}

// The report of the cluster has its partitions with their GPUs and waiting jobs.
func TestReport(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 2, GPUs: 4})
	defer b.end()
	w, waiting := b.attempt("wrk_a", "sleep 300", 1), b.attempt("wrk_b", "sleep 300", 2)
	w.Attempt.Batch.Parts[0].GPUsPerNode, waiting.Attempt.Batch.Parts[0].GPUsPerNode = 3, 3
	b.apply(w)
	b.reach(w.Key, executor.PhaseRunning)
	b.apply(w, waiting)
	b.cluster.Down(t.Context(), "n2", "repair")
	b.until("the report shows the cluster", func() bool {
		r := b.runner.Report()
		return len(r.Partitions) == 3 && r.Partitions[0].NodesDown == 1 && r.Partitions[0].JobsWaiting == 1 && r.Partitions[0].GPUsUsed == 3
	})
	r := b.runner.Report()
	require.Empty(t, r.Problem)
	require.NotEmpty(t, r.Version)
	p := r.Partitions[0]
	require.Equal(t, "gpu", p.Name)
	require.Equal(t, "up", p.State)
	require.Equal(t, []int{2, 8, 4, 16}, []int{p.Nodes, p.GPUsTotal, p.GPUsPerNode, p.CPUsPerNode})
	require.Equal(t, int64(64000<<20), p.MemoryPerNode)
	require.Zero(t, p.MaxTime)
	require.Equal(t, "10m0s", r.Partitions[1].MaxTime.String())
	b.cluster.KillController()
	b.until("the problem is reported", func() bool { return b.runner.Report().Problem != "" })
	b.cluster.StartController(t.Context())
	b.until("the problem is gone", func() bool { return b.runner.Report().Problem == "" })
}
