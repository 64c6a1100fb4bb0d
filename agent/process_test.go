package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
)

// TestMain runs the agent or the shim instead of the tests if the first argument is one of their commands.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.Main(os.Args[2:], clock.Real(), os.Stderr))
		case "run", "join":
			os.Exit(agent.Process{
				Args: os.Args[1:], Settings: conf.OS(), Environ: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: "test",
			}.Main())
		}
	}
	os.Exit(m.Run())
}

// process is an agent in a separate process.
type process struct {
	*exec.Cmd
	t *testing.T
}

func startAgent(t *testing.T, c *fakeControlPlane, data, token string, flags ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"run", "--data", data, "--server", c.http.URL}, flags...)...)
	cmd.Env = append(os.Environ(), "SERVICE_AGENT_ENVIRONMENTS="+environments(t), "SERVICE_LOG_FORMAT=text", "SERVICE_AGENT_JOIN_TOKEN="+token,
		"SERVICE_AGENT_ISOLATION=none") // the works write files outside of their folders, for the tests to read
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Start())
	return &process{Cmd: cmd, t: t}
}

func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.Process.Kill())
	_ = p.Wait()
}

// terminate sends SIGTERM to the agent and waits until it has exited.
func (p *process) terminate() {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(p.t, p.Wait())
}

func TestKilledAgentLosesNoWork(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data, files := t.TempDir(), t.TempDir()
	goOn, starts := filepath.Join(files, "go"), filepath.Join(files, "starts")
	first := startAgent(t, c, data, joinToken)
	c.setDesired(c.script("echo x >> " + starts + "; echo begin; while [ ! -e " + goOn + " ]; do sleep 0.02; done; echo end; exit 3"))
	running := c.phase(jobsv1.Phase_PHASE_RUNNING)
	require.Eventually(t, touched(starts), time.Minute, 10*time.Millisecond)
	first.kill()

	// The next agent needs no token, because the folder contains the node's certificate.
	second := startAgent(t, c, data, "")
	require.Eventually(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.hellos) == 2 }, time.Minute, 10*time.Millisecond)
	adopted := c.phase(jobsv1.Phase_PHASE_RUNNING)
	require.Equal(t, running.GetRunningAt().AsTime(), adopted.GetRunningAt().AsTime())
	second.kill()

	// The work ends while no agent is running.
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	third := startAgent(t, c, data, "")
	exited := c.phase(jobsv1.Phase_PHASE_EXITED)
	require.Equal(t, int32(3), exited.GetExit().GetCode())
	require.Empty(t, exited.GetExit().GetReason())
	require.Equal(t, "begin\nend\n", c.log())
	require.Equal(t, "x\n", read(t, starts), "the command must not be started again")
	require.Equal(t, 1, c.joins)
	require.NotEqual(t, c.hellos[0].GetIncarnation(), c.hellos[1].GetIncarnation())
	c.setDesired()
	c.awaitNoWorks()
	third.terminate()
}

func TestSIGTERMLeavesWorksRunning(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data, pid := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	first := startAgent(t, c, data, joinToken)
	c.setDesired(c.script("echo $$ > " + pid + "; sleep 300"))
	c.phase(jobsv1.Phase_PHASE_RUNNING)
	require.Eventually(t, touched(pid), time.Minute, 10*time.Millisecond)
	first.terminate()
	require.NoError(t, exec.CommandContext(t.Context(), "/bin/sh", "-c", "kill -0 $(cat "+pid+")").Run(), "the work must outlive the agent")

	second := startAgent(t, c, data, "", "--stop-works")
	require.Eventually(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.hellos) == 2 }, time.Minute, 10*time.Millisecond)
	c.phase(jobsv1.Phase_PHASE_RUNNING)
	c.next()
	second.terminate()
	require.Error(t, exec.CommandContext(t.Context(), "/bin/sh", "-c", "kill -0 $(cat "+pid+") 2>/dev/null").Run(), "--stop-works must end the work")
	// The second agent may not have had time to report the exit. The next agent reports it.
	third := startAgent(t, c, data, "")
	stopped := c.until("the exit is reported", func(o *jobsv1.ObservedWork) bool { return o.GetExit() != nil })
	require.Equal(t, "stopped", stopped.GetExit().GetReason())
	require.Equal(t, int32(syscall.SIGTERM), stopped.GetExit().GetSignal())
	c.setDesired()
	c.awaitNoWorks()
	third.terminate()
}

func TestWrongJoinTokenEndsAgent(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	p := startAgent(t, c, t.TempDir(), "another")
	var exit *exec.ExitError
	require.ErrorAs(t, p.Wait(), &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Zero(t, c.joins)
}
