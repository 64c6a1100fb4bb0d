package maintenancetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// example is a command on the page and the lines that it must print. On the page, a line `…` represents any other
// lines.
type example struct {
	command string
	prints  []string
}

// parseExamples returns the examples of a page: the commands after `$ ` in console blocks.
func parseExamples(page string) (out []example) {
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case isCommand:
			out = append(out, example{command: command})
		case len(out) > 0 && len(out[len(out)-1].prints) == 0 && strings.HasSuffix(out[len(out)-1].command, "\\"):
			out[len(out)-1].command += "\n" + line
		case line != "…":
			out[len(out)-1].prints = append(out[len(out)-1].prints, line)
		}
	}
	return out
}

func TestParseExamples(t *testing.T) {
	t.Parallel()
	require.Equal(t, []example{
		{command: "a \\\n    b", prints: []string{"one", "two"}}, {command: "c"},
	}, parseExamples("```sh\n$ no\n```\n```console\n$ a \\\n    b\none\n…\ntwo\n$ c\n```\nd\n"))
}

// examples runs all commands of docs/reference/grpc.md with the pinned version of buf.
func examples(t *testing.T, s *testenv.Installation, admin string) {
	t.Helper()
	root := testenv.Root(t)
	built, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "tools", "buf.sh")).Output()
	require.NoError(t, err, "scripts/tools/buf.sh")
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "grpc.md"))
	require.NoError(t, err)
	all := parseExamples(string(page))
	require.Greater(t, len(all), 5)
	dir := t.TempDir()
	tools := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(tools, 0o700))
	require.NoError(t, os.Symlink(strings.TrimSpace(string(built)), filepath.Join(tools, "buf")))
	for _, e := range all {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(e.command, "127.0.0.1:8080", strings.TrimPrefix(s.URL, "http://")))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "TOKEN="+admin)
		out, err := cmd.CombinedOutput()
		if len(e.prints) == 0 {
			require.NoError(t, err, "%s\n%s", e.command, out)
		}
		for _, want := range e.prints {
			require.Contains(t, string(out), want, e.command)
		}
	}
}
