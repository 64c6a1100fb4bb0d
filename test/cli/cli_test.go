// Package cli tests the built command line against an installation: what each command prints and its exit status, the
// tour of the product, the login, and what an interruption or a restart of the server leaves.
package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestCLI runs everything that needs an installation against the same one. What disturbs others comes last.
func TestCLI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("together", func(t *testing.T) {
		t.Run("tour", func(t *testing.T) { t.Parallel(); w.tour(t) })
		t.Run("login", func(t *testing.T) { t.Parallel(); w.deviceLogin(t) })
		t.Run("interrupted", func(t *testing.T) { t.Parallel(); w.interrupted(t) })
		t.Run("own", func(t *testing.T) { t.Parallel(); w.interruptedRun(t) })
		t.Run("pull", func(t *testing.T) { t.Parallel(); w.interruptedPull(t) })
		t.Run("watched", func(t *testing.T) { t.Parallel(); w.watched(t) })
		t.Run("top", func(t *testing.T) { t.Parallel(); w.top(t) })
		t.Run("script", func(t *testing.T) { testscript.Run(t, w.scripts("testdata/script")) })
	})
	t.Run("alone", func(t *testing.T) { testscript.Run(t, w.scripts("testdata/alone")) })
	t.Run("restart", func(t *testing.T) { w.restart(t) })
}

// program returns a command that runs signalbox in a folder of its own, with no settings of the user who runs the tests.
func (w *world) program(t *testing.T, home string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Bin(t, "signalbox"), args...)
	cmd.Dir, cmd.Env = home, append(plainEnv(home), env...)
	return cmd
}

// plainEnv returns an environment in which signalbox finds neither settings nor a keyring.
func plainEnv(home string) []string {
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TZ=UTC", "DBUS_SESSION_BUS_ADDRESS=disabled:"}
}

// signedIn returns the variables with which a command uses the installation as a user.
func (w *world) signedIn(name string) []string {
	return []string{"SERVICE_SERVER=" + w.URL, "SERVICE_TOKEN=" + w.tokens[name].Reveal()}
}

// mustRun runs signalbox as admin and returns its standard output.
func (w *world) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	cmd := w.program(t, t.TempDir(), w.signedIn("admin"), args...)
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		require.FailNow(t, err.Error(), "%q: %s", args, failed.Stderr)
	}
	require.NoError(t, err)
	return string(out)
}

// scriptFiles returns the paths of all scripts.
func scriptFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// shell returns a command that runs a script of bash.
func shell(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "bash", "-c", script)
}
