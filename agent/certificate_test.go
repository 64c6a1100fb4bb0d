package agent_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// runToExit runs an agent until it exits and returns its combined output.
func runToExit(t *testing.T, c *fakeControlPlane, data string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"run", "--data", data, "--server", c.http.URL}, args...)...)
	cmd.Env = append(os.Environ(), "SERVICE_AGENT_ENVIRONMENTS="+environments(t), "SERVICE_LOG_FORMAT=text",
		"SERVICE_AGENT_ISOLATION=none") // the works write files outside of their folders, for the tests to read
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	return output.String(), err
}

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(token+"\n"), 0o600))
	return path
}

func TestExpiredCertificateRequiresNewJoin(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	c.joinedAt = clock.Real().Now().Add(-2 * time.Hour) // The certificate is valid for one hour.
	data := t.TempDir()
	output, err := runToExit(t, c, data, "--join-token-file", tokenFile(t, joinToken))
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode(), "systemd must not restart the agent after this exit status")
	require.Contains(t, output, "must join its fleet again")
	require.Contains(t, output, "remove "+filepath.Join(data, "node"))
	require.NotContains(t, output, joinToken)

	output, err = runToExit(t, c, data)
	require.Error(t, err, "the next start must also fail")
	require.Contains(t, output, "must join its fleet again")

	// Follow the remedy in the error. The agent must then run works again.
	require.NoError(t, os.RemoveAll(filepath.Join(data, "node")))
	c.mu.Lock()
	c.joinedAt = time.Time{}
	c.mu.Unlock()
	p := startAgent(t, c, data, joinToken)
	c.setDesired(c.script("exit 3"))
	require.Equal(t, int32(3), c.phase(jobsv1.Phase_PHASE_EXITED).GetExit().GetCode())
	c.setDesired()
	c.awaitNoWorks()
	p.terminate()
}

func TestMissingJoinTokenNamesSetting(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "run", "--data", data, "--server", c.http.URL)
	cmd.Env = append(os.Environ(), "SERVICE_LOG_FORMAT=text")
	output := &watchWriter{seen: make(chan struct{}), word: "SERVICE_AGENT_JOIN_TOKEN"}
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	select {
	case <-output.seen:
	case <-time.After(time.Minute):
		t.Fatal("the agent's output does not contain the name of the missing setting")
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "SIGTERM must end the agent without an error")
	require.Zero(t, c.joins)
}

// watchWriter keeps what is written to it. It closes the channel seen as soon as the output contains the given word.
type watchWriter struct {
	output bytes.Buffer
	word   string
	seen   chan struct{}
	found  bool
}

func (w *watchWriter) Write(p []byte) (int, error) {
	n, err := w.output.Write(p)
	if !w.found && strings.Contains(w.output.String(), w.word) {
		w.found = true
		close(w.seen)
	}
	return n, err
}

func TestKillDuringPreparationPreparesAgain(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data, starts := t.TempDir(), filepath.Join(t.TempDir(), "starts")
	first := startAgent(t, c, data, joinToken)
	w := c.script("echo x >> " + starts)
	// This control plane cannot sign downloads, so the preparation does not end.
	w.GetAttempt().Package = &jobsv1.ObjectRef{Path: "p", Uri: "blob://p", SizeBytes: 1, Sha256: strings.Repeat("0", 64)}
	c.downloads("")
	c.setDesired(w)
	c.phase(jobsv1.Phase_PHASE_PREPARING)
	first.kill()
	c.downloads(c.http.URL + "/object")
	second := startAgent(t, c, data, "")
	exited := c.phase(jobsv1.Phase_PHASE_EXITED)
	require.Equal(t, "fetch", exited.GetExit().GetReason(), "an object whose hash does not match must fail the fetch")
	require.NoFileExists(t, starts)
	c.setDesired()
	c.awaitNoWorks()
	second.terminate()
}

func TestNodeKeyOnlyInItsFile(t *testing.T) {
	t.Parallel()
	c := newFakeControlPlane(t)
	c.listenTCP()
	data := t.TempDir()
	p := startAgent(t, c, data, joinToken)
	c.setDesired(c.script("env; cat /proc/self/environ; sleep 0"))
	c.phase(jobsv1.Phase_PHASE_EXITED)
	require.NotContains(t, c.log(), joinToken, "the join token leaked into a work")
	require.NotContains(t, c.log(), "SERVICE_AGENT_", "an agent setting leaked into a work")
	found := 0
	require.NoError(t, filepath.WalkDir(data, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(raw), joinToken, path)
		if strings.Contains(string(raw), "PRIVATE KEY") {
			found++
			info, err := e.Info()
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
		}
		return nil
	}))
	require.Equal(t, 1, found)
	c.setDesired()
	c.awaitNoWorks()
	p.terminate()
}
