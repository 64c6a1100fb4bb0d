package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The work of a removed node continues on another node. The agent of the removed node must therefore end the processes,
// state the reason once and exit.
func TestRemovedNodeEndsAgentAndWorks(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data, ready := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	type ended struct {
		output string
		err    error
	}
	done := make(chan ended, 1)
	go func() {
		output, err := runToExit(t, c, data, "--join-token-file", tokenFile(t, joinToken))
		done <- ended{output, err}
	}()
	c.setDesired(c.script("echo $$ > " + ready + ".new && mv " + ready + ".new " + ready + "; exec sleep 300"))
	require.Eventually(t, touched(ready), time.Minute, 10*time.Millisecond)
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, ready)))
	require.NoError(t, err)
	c.remove()
	first := <-done
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "the process of the work must have ended")

	second, err := runToExit(t, c, data)
	for _, e := range []ended{first, {second, err}} {
		var exit *exec.ExitError
		require.ErrorAs(t, e.err, &exit, e.output)
		require.Equal(t, 3, exit.ExitCode(), "systemd must not restart the agent after this exit status")
		require.Equal(t, 1, strings.Count(e.output, "signalbox-agent: "), e.output)
		require.Contains(t, e.output, "this node was removed from the control plane: node nod_1")
		require.Contains(t, e.output, "remove "+filepath.Join(data, "node"))
		require.NotContains(t, e.output, "retry_in")
	}
	unit, err := os.ReadFile("../deploy/systemd/signalbox-agent.service")
	require.NoError(t, err)
	require.Contains(t, string(unit), "\nRestartPreventExitStatus=3\n")
}
