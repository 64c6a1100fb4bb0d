package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// build runs scripts/build.sh in a scratch tree in which console is the script that builds the console. It returns the
// output, the commands of Go that ran, and whether the script succeeded. The folder of the console contains an old file.
func build(t *testing.T, console string, env ...string) (dir, out, commands string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	script, err := os.ReadFile(filepath.Join(top(), "scripts", "build.sh"))
	require.NoError(t, err)
	for name, content := range map[string]string{
		"scripts/build.sh":     string(script),
		"scripts/console.sh":   "#!/bin/sh\n" + console,
		"scripts/version.sh":   "#!/bin/sh\necho v1",
		"path/go":              "#!/bin/sh\necho \"$@\" >> commands",
		"console/package.json": "{}",
		"gateway/internal/webpage/console/.gitkeep": "",
		"gateway/internal/webpage/console/old.js":   "old",
	} {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o750))
		require.NoError(t, os.WriteFile(at, []byte(content), 0o700))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "scripts/build.sh")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(dir, "path")+":"+os.Getenv("PATH"), "CONSOLE="), env...)
	raw, err := cmd.CombinedOutput()
	ran, _ := os.ReadFile(filepath.Join(dir, "commands")) // missing if Go was not called
	return dir, string(raw), string(ran), err == nil
}

const buildsConsole = "echo '<p>' > gateway/internal/webpage/console/index.html; echo built > ran"

func TestBuildScript_buildsConsole(t *testing.T) {
	t.Parallel()
	dir, out, commands, ok := build(t, buildsConsole)
	require.True(t, ok, out)
	require.FileExists(t, filepath.Join(dir, "ran"))
	require.Contains(t, commands, "build -o bin/")
	require.Contains(t, commands, "version.build=v1")
}

func TestBuildScript_compilesBesideConsole(t *testing.T) {
	t.Parallel()
	// The console is built only after Go has compiled the packages that do not embed it.
	_, out, commands, ok := build(t, "until [ -e commands ]; do sleep 0.01; done; "+buildsConsole)
	require.True(t, ok, out)
	require.Regexp(t, `^build \./agent/\.\.\. \./internal/\.\.\. \./services/\.\.\.\nbuild -o bin/`, commands)
}

// A build without the console must not be released unnoticed.
func TestBuildScript_failsWithoutConsole(t *testing.T) {
	t.Parallel()
	for _, console := range []string{"echo no such package; exit 1", "exit 0"} {
		_, out, commands, ok := build(t, console)
		require.False(t, ok, console)
		require.Contains(t, out, "the console was not built; CONSOLE=none make build leaves it out")
		require.NotContains(t, commands, "-o bin/")
	}
}

func TestBuildScript_leavesConsoleOut(t *testing.T) {
	t.Parallel()
	dir, out, commands, ok := build(t, buildsConsole, "CONSOLE=none")
	require.True(t, ok, out)
	require.NoFileExists(t, filepath.Join(dir, "ran"))
	require.Contains(t, commands, "build -o bin/")
	left, err := os.ReadDir(filepath.Join(dir, "gateway", "internal", "webpage", "console"))
	require.NoError(t, err)
	require.Len(t, left, 1, "an old console must not be embedded")
	require.Equal(t, ".gitkeep", left[0].Name())
}
