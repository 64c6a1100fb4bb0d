package agent_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func TestSecondAgentOverSameFolderExits(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data, goOn := t.TempDir(), filepath.Join(t.TempDir(), "go")
	first := startAgent(t, c, data, joinToken)
	c.setDesired(c.script("echo begin; while [ ! -e " + goOn + " ]; do sleep 0.02; done; echo end"))
	c.phase(jobsv1.Phase_PHASE_RUNNING)
	// An agent would remove this incomplete work at its start. The second agent must not, because the first one
	// may be creating it.
	half := filepath.Join(data, "works", "half-made")
	require.NoError(t, os.Mkdir(half, 0o700))

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "run", "--data", data, "--server", c.http.URL)
	words, err := cmd.CombinedOutput()
	output := string(words)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, output, "in use")
	require.Contains(t, output, "process "+strconv.Itoa(first.Process.Pid))
	require.DirExists(t, half)
	require.Len(t, c.greetings(), 1, "the second agent must not connect")

	require.NoError(t, os.Remove(half))
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	exited := c.phase(jobsv1.Phase_PHASE_EXITED)
	require.Zero(t, exited.GetExit().GetCode())
	require.Equal(t, "begin\nend\n", c.log(), "the work must run to its end")
	c.setDesired()
	c.awaitNoWorks()
	first.terminate()
}

func (c *fakeControlPlane) greetings() []*jobsv1.AgentHello {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hellos
}

func TestDataFolderReleasedWhenAgentEnds(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data := t.TempDir()
	startAgentAndAwait(t, c, data, joinToken, 1).kill()
	startAgentAndAwait(t, c, data, "", 2).terminate()
	startAgentAndAwait(t, c, data, "", 3).terminate()
}

func startAgentAndAwait(t *testing.T, c *fakeControlPlane, data, token string, hellos int) *process {
	t.Helper()
	p := startAgent(t, c, data, token)
	require.Eventually(t, func() bool { return len(c.greetings()) == hellos }, time.Minute, 10*time.Millisecond)
	return p
}

func TestNew_dataSeenByWorks(t *testing.T) {
	t.Parallel()
	data, beside := filepath.Join(t.TempDir(), "data"), t.TempDir()
	link := filepath.Join(beside, "link")
	require.NoError(t, os.Symlink(filepath.Dir(data), link))
	for want, cfg := range map[string]agent.Config{
		"which contains the data folder " + data:                           {Data: data, WorkPaths: beside + "," + link},
		"which contains the data folder /usr/local/x/data":                 {Data: "/usr/local/x/data"},
		"which contains the data folder " + beside:                         {Data: data, Private: []string{beside}, WorkPaths: filepath.Join(beside, "keys")},
		"no random bytes: New reads them after it has checked the folders": {Data: data, WorkPaths: link, Isolation: "none"},
	} {
		cfg.Exec = []string{"shim"}
		_, err := agent.New(cfg, agent.Deps{Rand: iotest.ErrReader(errors.New("no random bytes: New reads them after it has checked the folders"))})
		require.ErrorContains(t, err, want)
	}
	require.NoDirExists(t, data)
}

func TestNew_failureReleasesFolder(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	works := filepath.Join(data, "works")
	require.NoError(t, os.WriteFile(works, nil, 0o600))
	make := func() (*agent.Agent, error) {
		return agent.New(agent.Config{Data: data, Exec: []string{"shim"}}, agent.Deps{
			Rand: rand.Reader, Clock: clock.Real(), Jitter: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
			Joiner: memoryJoiner{},
		})
	}
	_, err := make()
	require.ErrorContains(t, err, "folder of works")
	require.NoError(t, os.Remove(works))
	a, err := make()
	require.NoError(t, err)
	_, err = make()
	require.ErrorIs(t, err, agent.ErrInUse)
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, a.Run(ctx))
	require.NoError(t, a.Close(), "Close after Run must do nothing")
	b, err := make()
	require.NoError(t, err, "Run must release the folder")
	require.NoError(t, b.Close())
	c, err := make()
	require.NoError(t, err, "Close must release the folder")
	require.NoError(t, c.Close())
}
