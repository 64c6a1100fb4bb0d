package slurm_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
)

// A restart of the controller does not affect a running attempt, even if the attempt ends meanwhile.
func TestControllerRestarts(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1})
	defer b.end()
	starts, goOn := filepath.Join(t.TempDir(), "starts"), filepath.Join(t.TempDir(), "go")
	w := b.attempt("wrk_a", "echo x >> "+starts+"; while [ ! -e "+goOn+" ]; do sleep 0.05; done; exit 4", 1)
	b.apply(w)
	b.reach(w.Key, executor.PhaseRunning)
	b.cluster.RestartController(t.Context())
	require.Equal(t, executor.PhaseRunning, b.observe(w.Key).Phase)
	b.cluster.KillController()
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	require.Equal(t, executor.Exit{Code: 4}, b.exit(w.Key), "the exit must be known without the controller")
	b.cluster.StartController(t.Context())
	require.Equal(t, []string{"x"}, b.lines(starts))
}

// An attempt is submitted when the controller responds again.
func TestControllerAbsentAtSubmission(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1, Settings: map[string]string{"MessageTimeout": "1"}})
	defer b.end()
	b.cluster.KillController()
	starts := filepath.Join(t.TempDir(), "starts")
	w := b.attempt("wrk_a", "echo x >> "+starts, 1)
	b.apply(w)
	b.until("the trouble is reported", func() bool { return b.observe(w.Key).Detail != "" && b.observe(w.Key).Batch != nil })
	b.cluster.StartController(t.Context())
	require.Equal(t, executor.Exit{}, b.exit(w.Key))
	require.Equal(t, []string{"x"}, b.lines(starts))
}

// An attempt whose node goes down is lost, and the message names the node.
func TestNodeDown(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 2})
	w := b.attempt("wrk_a", "sleep 300", 2)
	b.apply(w)
	b.reach(w.Key, executor.PhaseRunning)
	b.cluster.KillNode("n2")
	b.cluster.Down(t.Context(), "n2", "no power")
	exit := b.exit(w.Key)
	require.Equal(t, executor.ReasonLost, exit.Reason)
	require.Contains(t, exit.Message, "NODE_FAIL")
	require.Contains(t, exit.Message, "n2")
}

// An attempt that someone cancels in Slurm is lost, with Slurm's state in the message.
func TestCancelledInSlurm(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1})
	w := b.attempt("wrk_a", "sleep 300", 1)
	b.apply(w)
	o := b.reach(w.Key, executor.PhaseRunning)
	b.cluster.Output(t.Context(), "scancel", o.Batch.ID)
	exit := b.exit(w.Key)
	require.Equal(t, executor.ReasonLost, exit.Reason)
	require.Contains(t, exit.Message, "CANCELLED")
}

// An attempt that a job of another partition preempts is lost.
func TestPreempted(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1, GPUs: 1})
	w := b.attempt("wrk_a", "sleep 300", 1)
	w.Attempt.Batch.Parts[0].GPUsPerNode = 1
	b.apply(w)
	b.reach(w.Key, executor.PhaseRunning)
	b.cluster.Output(t.Context(), "sbatch", "--partition=urgent", "--gres=gpu:1", "--output=/dev/null", "--wrap=sleep 1")
	exit := b.exit(w.Key)
	require.Equal(t, executor.ReasonLost, exit.Reason)
	require.Contains(t, exit.Message, "PREEMPTED")
}

// What Slurm refuses ends the attempt with Slurm's reason.
func TestRefusedBySlurm(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1})
	w := b.attempt("wrk_a", "true", 1)
	w.Attempt.Batch.Parts[0].Slurm.Partition = "missing"
	b.apply(w)
	exit := b.exit(w.Key)
	require.Equal(t, executor.ReasonStart, exit.Reason)
	require.Contains(t, exit.Message, "invalid partition")
}

// Engines, and attempts without a description for Slurm, are refused.
func TestUnsuitableWorks(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1})
	engine := executor.Work{
		Key: executor.Key{WorkID: "wrk_e", Generation: 1, Fence: 1}, Kind: executor.KindEngine, Desired: executor.DesiredRunning,
		Engine: &executor.EngineSpec{Driver: "command", Command: []string{"true"}, ProbeDeadline: time.Second},
	}
	plain := b.attempt("wrk_a", "true", 1)
	plain.Attempt.Batch = nil
	b.apply(engine, plain)
	for _, key := range []executor.Key{engine.Key, plain.Key} {
		exit := b.exit(key)
		require.Equal(t, executor.ReasonStart, exit.Reason)
		require.Contains(t, exit.Message, "Slurm")
	}
}
