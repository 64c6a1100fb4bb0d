package agent_test

import (
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestConfig_Validate_slurm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*agent.Config)
		want   string
	}{
		"host":                 {func(c *agent.Config) { c.RunsOn = "host" }, ""},
		"slurm":                {func(c *agent.Config) { c.RunsOn, c.SlurmFolder = "slurm", "/shared" }, ""},
		"unknown":              {func(c *agent.Config) { c.RunsOn = "kubernetes" }, "SERVICE_AGENT_RUNS_ON"},
		"no folder":            {func(c *agent.Config) { c.RunsOn = "slurm" }, "SERVICE_AGENT_SLURM_FOLDER"},
		"relative folder":      {func(c *agent.Config) { c.RunsOn, c.SlurmFolder = "slurm", "shared" }, "SERVICE_AGENT_SLURM_FOLDER"},
		"folder without slurm": {func(c *agent.Config) { c.SlurmFolder = "/shared" }, "SERVICE_AGENT_SLURM_FOLDER"},
		"relay": {func(c *agent.Config) {
			c.RunsOn, c.SlurmFolder, c.RelayListen = "slurm", "/shared", "0.0.0.0:0"
		}, "SERVICE_AGENT_RELAY_LISTEN"},
	} {
		cfg := agent.Config{Data: "/data", Isolation: "none"}
		c.change(&cfg)
		err := cfg.Validate()
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}
}

// An agent of a Slurm cluster stores works in its own folder of the shared file system, and puts its program there for the
// nodes. The next agent with the same data folder uses the same ones.
func TestAgent_slurmFolder(t *testing.T) {
	t.Parallel()
	data, shared := t.TempDir(), t.TempDir()
	open := func() error {
		a, err := agent.New(agent.Config{
			Data: data, Environments: environments(t), Hostname: "here", JoinToken: secret.New(joinToken), Exec: []string{os.Args[0], "shim"},
			Environ: os.Environ(), Version: "test", Isolation: "none", RunsOn: "slurm", SlurmFolder: shared,
		}, agent.Deps{
			Clock: clock.Real(), Rand: rand.Reader, Jitter: func() float64 { return 0 }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		if err != nil {
			return err
		}
		return a.Close()
	}
	require.NoError(t, open())
	require.NoError(t, open())
	folders, err := filepath.Glob(filepath.Join(shared, "signalbox-*", "works"))
	require.NoError(t, err)
	require.Len(t, folders, 1)
	programs, err := filepath.Glob(filepath.Join(shared, "signalbox-*", "bin", "signalbox-agent-*"))
	require.NoError(t, err)
	require.Len(t, programs, 1)
	info, err := os.Stat(programs[0])
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&0o100)
	require.NoDirExists(t, filepath.Join(data, "works"))

	require.NoError(t, os.Chmod(shared, 0o777))
	require.ErrorContains(t, open(), "other users can rename folders in SERVICE_AGENT_SLURM_FOLDER")
	require.NoError(t, os.Chmod(shared, 0o777|os.ModeSticky))
	require.NoError(t, open())
	mounted := filepath.Dir(folders[0])
	require.NoError(t, os.Rename(mounted, mounted+"-away"))
	require.ErrorContains(t, open(), "mount the shared file system")
	require.NoDirExists(t, mounted, "an agent that finds none of its works must not start")
	require.NoError(t, os.Rename(mounted+"-away", mounted))
	require.NoError(t, open())
}
