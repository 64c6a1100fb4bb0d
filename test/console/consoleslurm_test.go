package console

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// slurmJourney needs a Slurm cluster.
const slurmJourney = "slurm"

// startSlurm starts a Slurm cluster with one GPU, which a job of another user holds, and the agent of a new Slurm fleet. It
// returns the ids for the journey: the fleet, its pool, and the folder that the agent and the node share. The pool has no
// settings.
func startSlurm(ctx context.Context, t *testing.T, s *testenv.Installation, task consoleTask) map[string]string {
	t.Helper()
	cluster := slurmtest.Start(t, slurmtest.Config{Nodes: 1, GPUs: 1})
	other := cluster.Output(ctx, "sbatch", "--parsable", "--partition=gpu", "--gres=gpu:1", "--wrap=sleep 3600")
	cluster.AwaitState(ctx, strings.TrimSpace(other), "RUNNING")
	var in struct {
		Token string `json:"token"`
	}
	c := client.New(s.URL, nil)
	require.NoError(t, c.Post(ctx, "/api/auth/login", map[string]string{"username": task.Username, "password": task.Password}, &in))
	c = c.With(secret.New(in.Token))
	pool := "slurm-" + task.IDs["name"]
	var fleet, join made
	require.NoError(t, c.Post(ctx, "/api/fleets", map[string]any{"name": pool, "kind": "slurm", "pools": []string{pool}}, &fleet))
	require.NoError(t, c.Post(ctx, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, &join))

	dir := testenv.Folder(t)
	folder := filepath.Join(dir, "shared")
	require.NoError(t, os.Mkdir(folder, 0o700))
	agent := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, testenv.Bin(t, "signalbox-agent"), args...)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), cluster.Env()...), "SERVICE_AGENT_SERVER="+s.URL, "SERVICE_AGENT_RUNS_ON=slurm",
			"SERVICE_AGENT_SLURM_FOLDER="+folder, "SERVICE_AGENT_DATA="+filepath.Join(dir, "agent"),
			"PATH="+filepath.Dir(cluster.Bin("sbatch"))+string(filepath.ListSeparator)+os.Getenv("PATH"))
		return cmd
	}
	joining := agent(ctx, "join", "--server", s.URL, "--join-token-file", "-")
	joining.Stdin = strings.NewReader(join.Token)
	out, err := joining.CombinedOutput()
	require.NoError(t, err, "%s", out)
	ctx, cancel := context.WithCancel(ctx)
	running := agent(ctx, "run")
	require.NoError(t, running.Start())
	t.Cleanup(func() {
		cancel()
		_ = running.Wait() // the journey shows whether the agent worked
		for _, pid := range testenv.LeftProcesses(folder) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return map[string]string{"slurmFleet": fleet.ID, "slurmPool": pool, "slurmFolder": folder}
}
