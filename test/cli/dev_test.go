package cli

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const devTimeout = 5 * time.Minute

// TestDev starts a server as a developer does, and trains the demo with the commands that it prints.
func TestDev(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), devTimeout)
	defer cancel()
	dir := testenv.Folder(t)
	home := t.TempDir()
	signalbox := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, testenv.Bin(t, "signalbox"), args...)
		cmd.Dir, cmd.Env = testenv.Root(t), append(plainEnv(home), "PATH="+testenv.PathWithUV(t))
		return cmd
	}
	printed := startDev(t, signalbox("dev", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"), dir)
	require.Contains(t, printed, "with the dataset ds/default/additions@v1")
	require.Contains(t, printed, testenv.Bin(t, "signalbox")+" submit --demo --follow ", "the login must be the current one")

	cmd := signalbox("submit", "--demo", "--follow", "--hparam", "train.max_steps=100")
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Run(), "%s", &said)
	require.Regexp(t, `exact match [▁▂▃▄▅▆▇█]{2,} 0\.\d\d at step 100`, said.String())
	require.Regexp(t, `deploy it: +\S+signalbox models register (tiny-\w+) --run tiny-\w+ && \S+signalbox deployments create tiny-\w+ --model`, said.String())
	require.Regexp(t, `talk to it: +\S+signalbox chat tiny-\w+ '27\+46\?'`, said.String())

	job := filepath.Join(dir, "job.yaml")
	require.NoError(t, signalbox("init", "--recipe", "demo/chat-tiny", job).Run())
	require.NoError(t, signalbox("recipes", "lock", job).Run())
	out, err := signalbox("preflight", job, "--jq", ".ok").Output()
	require.NoError(t, err)
	require.Equal(t, "true\n", string(out), "the job file must be valid as it is")
}

// startDev runs dev until the test ends, and returns what it has printed when it serves.
func startDev(t *testing.T, cmd *exec.Cmd, dir string) string {
	t.Helper()
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, time.Minute
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // TestDemoOnce of test/e2e tests how a server is stopped
		for _, pid := range testenv.LeftProcesses(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	var printed strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		printed.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "  Stop:") {
			return printed.String()
		}
	}
	require.FailNow(t, "dev ended", "%s%s", &printed, &log)
	return ""
}
