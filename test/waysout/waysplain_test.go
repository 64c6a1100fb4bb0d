package waysout

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestWaysOut_withoutWork tests the ways that stay closed in TestWaysOut_withoutBoundary. They must be open for a plain
// process, which shows that the shim and the limits of a work close them. For a way that may be closed for a plain
// process too, the table states the reason.
func TestWaysOut_withoutWork(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // an ordinary user cannot try all of the ways
	}
	scripts := testenv.Folder(t)
	copyPrograms(t, scripts)
	fill := filepath.Join("/dev/shm", "fill-"+filepath.Base(scripts))
	t.Cleanup(func() { _ = os.Remove(fill) })
	raw, err := json.Marshal(map[string]any{"pids": 4096, "files": workFiles, "files_seconds": 0, "disk_seconds": 0, "fill": fill})
	require.NoError(t, err)
	targets := filepath.Join(scripts, "targets.json")
	require.NoError(t, os.WriteFile(targets, raw, 0o600))
	results := map[string]string{}
	for _, args := range [][]string{{"limits.py", targets}, {"files.py", targets}, {"disk.py", targets, "disk space"}, {"disk.py", targets, "inodes"}, {"ways.py", targets, "scheduling before all others"}} {
		goPlain(t, scripts, args, results)
	}
	fleePlain(t, scripts, results)
	for _, w := range ways() {
		if w.always && w.reason == "" {
			require.Equal(t, openWay, results[w.name], "the way %q must be open for a plain process", w.name)
		}
		require.True(t, w.always || w.reason == "", w.name)
	}
}

// plain returns a command that runs the program outside of any work.
func plain(t *testing.T, scripts string, args []string) *exec.Cmd {
	t.Helper()
	args = append([]string{filepath.Join(scripts, args[0])}, args[1:]...)
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", args...)
	cmd.Env = append(os.Environ(), "SERVICE_JOB_WORKDIR="+t.TempDir())
	return cmd
}

// goPlain runs the program outside of any work, and adds the results that it prints.
func goPlain(t *testing.T, scripts string, args []string, results map[string]string) {
	t.Helper()
	out, err := plain(t, scripts, args).Output()
	require.NoError(t, err, args)
	for line := range strings.Lines(string(out)) {
		if parts := strings.Split(strings.TrimSpace(line), "|"); parts[0] == "way" && len(parts) > 3 {
			results[parts[1]] = parts[2]
			t.Log(line)
		}
	}
}

// fleePlain starts a process that starts other processes. It then kills the first process and checks which of the
// others still run.
func fleePlain(t *testing.T, scripts string, results map[string]string) {
	t.Helper()
	mark := filepath.Base(scripts)
	cmd := plain(t, scripts, []string{"flee.py", mark})
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, name := range fleeings() {
			for _, pid := range fled(t, name, mark) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "fled\n", line)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), "the process must have been killed")
	for _, name := range fleeings() {
		results["outlive the stop: "+name] = openIf(len(fled(t, name, mark)) > 0)
	}
}
