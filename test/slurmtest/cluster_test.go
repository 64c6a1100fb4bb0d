package slurmtest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/slurmtest"
)

// testTimeout bounds a test.
const testTimeout = 2 * time.Minute

const pollInterval = 20 * time.Millisecond

// harness is a cluster with two nodes of four GPUs each, and a folder that they share.
type harness struct {
	*slurmtest.Cluster
	t      *testing.T
	ctx    context.Context
	folder string
}

func start(t *testing.T) *harness {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return &harness{Cluster: slurmtest.Start(t, slurmtest.Config{Nodes: 2, GPUs: 4}), t: t, ctx: ctx, folder: t.TempDir()}
}

// submit submits a script and returns the id of the job. The output of the job is in the file out of the shared folder.
func (h *harness) submit(script string, options ...string) string {
	h.t.Helper()
	path := filepath.Join(h.folder, "script")
	require.NoError(h.t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o600))
	args := []string{"--parsable", "--no-requeue", "--output=" + filepath.Join(h.folder, "out"), "--chdir=" + h.folder}
	return h.Output(h.ctx, "sbatch", append(append(args, options...), path)...)
}

// lines returns the complete lines that the jobs have printed.
func (h *harness) lines() []string {
	h.t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.folder, "out"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(h.t, err)
	all := strings.Split(string(raw), "\n")
	return all[:len(all)-1]
}

// awaitLines waits until the jobs have printed n lines.
func (h *harness) awaitLines(n int) []string {
	h.t.Helper()
	for len(h.lines()) < n {
		require.NoError(h.t, h.ctx.Err(), "%q", h.lines())
		time.Sleep(20 * time.Millisecond)
	}
	return h.lines()
}

// field returns a field of `scontrol show job`.
func (h *harness) field(id, name string) string {
	h.t.Helper()
	for _, f := range strings.Fields(h.Output(h.ctx, "scontrol", "--oneliner", "show", "job", id)) {
		if value, ok := strings.CutPrefix(f, name+"="); ok {
			return value
		}
	}
	h.t.Fatalf("scontrol show job has no %s", name)
	return ""
}

func TestJob_getsItsGPUs(t *testing.T) {
	t.Parallel()
	h := start(t)
	first := h.submit("echo $(hostname) $CUDA_VISIBLE_DEVICES; sleep 100", "--gres=gpu:1", "--nodelist=n1")
	require.Equal(t, []string{"n1 0"}, h.awaitLines(1))
	second := h.submit("echo $(hostname) $CUDA_VISIBLE_DEVICES", "--gres=gpu:2", "--nodelist=n1", "--open-mode=append")
	h.AwaitState(h.ctx, second, "COMPLETED")
	require.Equal(t, []string{"n1 0", "n1 1,2"}, h.lines())
	h.Output(h.ctx, "scancel", first)
	h.AwaitState(h.ctx, first, "CANCELLED")
}

func TestStep_runsOnTwoNodes(t *testing.T) {
	t.Parallel()
	h := start(t)
	script := h.Bin("srun") + ` --mpi=none sh -c 'echo $SLURM_PROCID $SLURM_NTASKS $(hostname) $CUDA_VISIBLE_DEVICES'`
	id := h.submit(script, "--nodes=2", "--ntasks-per-node=1", "--gres=gpu:4")
	require.Equal(t, "n[1-2]", h.AwaitState(h.ctx, id, "COMPLETED").Nodes)
	require.ElementsMatch(t, []string{"0 2 n1 0,1,2,3", "1 2 n2 0,1,2,3"}, h.lines())
}

func TestJob_waitsForResources(t *testing.T) {
	t.Parallel()
	h := start(t)
	running := h.submit("sleep 100", "--nodes=2", "--gres=gpu:3")
	h.AwaitState(h.ctx, running, "RUNNING")
	waiting := h.submit("true", "--nodes=2", "--gres=gpu:2", "--job-name=name of it", "--comment=comment|of it")
	want := slurmtest.Job{ID: waiting, Name: "name of it", Comment: "comment|of it", State: "PENDING", Reason: "Resources"}
	require.Eventually(t, func() bool { return h.Job(h.ctx, waiting) == want }, testTimeout, pollInterval)
	h.Output(h.ctx, "scancel", running)
	h.AwaitState(h.ctx, waiting, "COMPLETED")
}

func TestJob_exitCode(t *testing.T) {
	t.Parallel()
	h := start(t)
	for script, want := range map[string]string{"exit 3": "FAILED 3:0", "kill -9 $$": "FAILED 0:9", "true": "COMPLETED 0:0"} {
		state, _, _ := strings.Cut(want, " ")
		id := h.submit(script)
		h.AwaitState(h.ctx, id, state)
		require.Equal(t, want, state+" "+h.field(id, "ExitCode"), script)
	}
}

// trapping prints its rank and then, on SIGTERM, that it has ended, with status 7.
const trapping = `#!/bin/sh
rank=${SLURM_PROCID:-batch}
trap 'echo ended $rank; exit 7' TERM
echo ready $rank
while :; do sleep 0.05; done
`

// program writes a program into the shared folder and returns its path.
func (h *harness) program(text string) string {
	h.t.Helper()
	path := filepath.Join(h.folder, "program")
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o700)) //nolint:gosec // Slurm executes the file
	return path
}

func TestTerm_reachesBatchProcess(t *testing.T) {
	t.Parallel()
	h := start(t)
	id := h.submit("exec " + h.program(trapping))
	h.awaitLines(1)
	h.Output(h.ctx, "scancel", "--signal=TERM", "--batch", id)
	h.AwaitState(h.ctx, id, "FAILED")
	require.Equal(t, "ready 0", h.lines()[0])
	require.Contains(t, h.lines(), "ended 0") // Slurm writes that it has sent the signal into the output
	require.Equal(t, "7:0", h.field(id, "ExitCode"))
}

func TestTerm_reachesTasksOfStep(t *testing.T) {
	t.Parallel()
	h := start(t)
	id := h.submit("exec "+h.Bin("srun")+" --mpi=none --kill-on-bad-exit=0 "+h.program(trapping), "--nodes=2", "--ntasks-per-node=1")
	require.ElementsMatch(t, []string{"ready 0", "ready 1"}, h.awaitLines(2))
	h.Output(h.ctx, "scancel", "--signal=TERM", id)
	h.AwaitState(h.ctx, id, "FAILED")
	require.Contains(t, h.lines(), "ended 0")
	require.Contains(t, h.lines(), "ended 1")
	require.Equal(t, "7:0", h.field(id, "ExitCode"))
}

func TestController_restartKeepsJobs(t *testing.T) {
	t.Parallel()
	h := start(t)
	running := h.submit("echo ready; until [ -e "+h.folder+"/end ]; do sleep 0.05; done", "--gres=gpu:4", "--nodes=2")
	h.awaitLines(1)
	waiting := h.submit("true", "--gres=gpu:4", "--nodes=2")
	h.RestartController(h.ctx)
	require.Equal(t, "RUNNING", h.Job(h.ctx, running).State)
	require.Equal(t, "PENDING", h.Job(h.ctx, waiting).State)
	h.KillController()
	require.NoError(t, os.WriteFile(filepath.Join(h.folder, "end"), nil, 0o600))
	require.Error(t, h.Command(h.ctx, "squeue").Run())
	h.StartController(h.ctx)
	h.AwaitState(h.ctx, running, "COMPLETED")
	h.AwaitState(h.ctx, waiting, "COMPLETED")
}

func TestNode_downEndsItsJobs(t *testing.T) {
	t.Parallel()
	h := start(t)
	id := h.submit("echo ready; sleep 1000", "--nodes=2")
	h.awaitLines(1)
	h.Down(h.ctx, "n2", "broken fan")
	job := h.AwaitState(h.ctx, id, "NODE_FAIL")
	require.Equal(t, "n[1-2]", job.Nodes)
	waiting := h.submit("true", "--nodes=2")
	require.Eventually(t, func() bool { return strings.HasPrefix(h.Job(h.ctx, waiting).Reason, "ReqNodeNotAvail") }, testTimeout, pollInterval)
	h.Resume(h.ctx, "n2")
	h.AwaitState(h.ctx, waiting, "COMPLETED")
}

func TestNode_deathEndsItsJobs(t *testing.T) {
	t.Parallel()
	h := start(t)
	id := h.submit("echo ready; sleep 1000", "--nodelist=n2")
	h.awaitLines(1)
	h.KillNode("n2")
	h.AwaitState(h.ctx, id, "NODE_FAIL")
	h.StartNode(h.ctx, "n2")
	h.AwaitIdle(h.ctx)
}

func TestUrgentJob_preempts(t *testing.T) {
	t.Parallel()
	h := start(t)
	id := h.submit("echo ready; sleep 1000", "--gres=gpu:4", "--nodes=2")
	h.awaitLines(1)
	urgent := h.submit("true", "--gres=gpu:4", "--partition=urgent")
	h.AwaitState(h.ctx, id, "PREEMPTED")
	h.AwaitState(h.ctx, urgent, "COMPLETED")
}
