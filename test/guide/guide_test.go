// Package guide runs the commands of the guides in docs/guide against an installation.
package guide

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// guidePages are the pages with commands, in the order of the navigation. The commands of a page use variables of
// earlier pages.
var guidePages = []string{"quickstart", "train", "track", "judge", "serve", "administer", "extend"}

// pagesElsewhere are the pages with commands that another test runs.
var pagesElsewhere = map[string]string{"tour": "TestCLI/together/tour of test/cli", "fine-tune": "TestFineTune", "slurm": "TestSlurm"}

// untestedCommands are the commands of the guides that this test does not run, each with the test that runs it.
var untestedCommands = map[string]string{
	"make demo\n": "TestDemoOnce",
	"make dev\n":  "testenv.Single starts signalboxd in the same way",
	"hf download Qwen/Qwen2.5-0.5B-Instruct --local-dir base\n":                          "TestFineTune makes a base model",
	"signalbox metrics colors --plot --key train/loss\nsignalbox logs colors --follow\n": "TestCLI/together of test/cli",
}

// guideBlock is a block of commands and the lines that it must print. In a line, `…` represents any text.
type guideBlock struct {
	place, commands string
	prints          []string
}

var fence = regexp.MustCompile("(?ms)^```(\\w*)( test)?\n(.*?)^```$")

// guideBlocks returns the blocks marked `test` of a page. A block of text that follows one has its output.
func guideBlocks(t *testing.T, page string) (blocks []guideBlock) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "guide", page+".md"))
	require.NoError(t, err)
	for _, m := range fence.FindAllStringSubmatch(string(raw), -1) {
		switch language, marked, text := m[1], m[2] != "", m[3]; {
		case marked:
			first, _, _ := strings.Cut(text, "\n")
			blocks = append(blocks, guideBlock{place: page + ": " + first, commands: text})
		case language == "text":
			require.NotEmpty(t, blocks, "%s: the output has no commands", page)
			blocks[len(blocks)-1].prints = strings.Split(strings.TrimRight(text, "\n"), "\n")
		case language == "sh" || language == "":
			require.Contains(t, untestedCommands, text, "%s: mark the commands as `sh test`", page)
		}
	}
	require.NotEmpty(t, blocks, page)
	return blocks
}

// guideMark separates the outputs of the blocks.
const guideMark = "\n=== end of a block ===\n"

// TestGuides runs all commands of the guides in one shell, against an installation whose first password is new.
func TestGuides(t *testing.T) {
	t.Parallel()
	var blocks []guideBlock
	for _, page := range guidePages {
		blocks = append(blocks, guideBlocks(t, page)...)
	}
	s := testenv.Single(t, testenv.Options{})
	var script strings.Builder
	for _, b := range blocks {
		script.WriteString(b.commands + "printf '%s' '" + guideMark + "'\n")
	}
	text := strings.ReplaceAll(script.String(), "http://127.0.0.1:8080", s.URL)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = t.TempDir()
	path := filepath.Dir(testenv.Bin(t, "signalbox")) + string(filepath.ListSeparator) + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "PATH="+path, "DBUS_SESSION_BUS_ADDRESS=disabled:")
	cmd.Stdin = strings.NewReader(s.Password.Reveal() + "\na new password of the guide\n")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	outputs := strings.Split(string(out), guideMark)
	for i, b := range blocks {
		if i == len(outputs)-1 {
			require.NoError(t, err, "%s: %s%s", b.place, outputs[i], &errOut)
		}
		for _, line := range b.prints {
			pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$"
			require.Regexp(t, pattern, outputs[i], b.place)
		}
	}
	require.Len(t, outputs, len(blocks)+1, "each block must end")
}

// TestGuidePagesComplete requires that every guide with commands is tested.
func TestGuidePagesComplete(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(testenv.Root(t), "docs/guide/*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		if strings.Contains(string(raw), "```sh") {
			name := strings.TrimSuffix(filepath.Base(page), ".md")
			require.True(t, slices.Contains(guidePages, name) || pagesElsewhere[name] != "", "no test runs the commands of %s", name)
		}
	}
}
