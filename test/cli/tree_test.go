package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// elsewhere are the commands whose success another test shows, with that test.
var elsewhere = map[string]string{"demo": "TestDemoOnce of test/e2e", "dev": "TestDev", "cluster top": "TestCLI/top"}

// node is a command as its help describes it.
type node struct {
	path     string // without signalbox
	examples []string
	leaf     bool
}

var (
	helpSection = regexp.MustCompile(`^  ([A-Z][A-Z, ]+?) *$`)
	piped       = regexp.MustCompile(` [|>] `)
	helpEntry   = regexp.MustCompile(`^    ([a-z][a-z-]*)( |$)`)
)

// TestTree_complete requires that the scripts show a success and a refusal of each command, and that each command has
// examples in its help that it would accept.
func TestTree_complete(t *testing.T) {
	t.Parallel()
	h := &helper{t: t, bin: testenv.Bin(t, "signalbox"), home: t.TempDir()}
	nodes := h.walk("")
	const least = 100
	require.Greater(t, len(nodes), least, "the commands were not found in the help")
	shown := scriptedCommands(t, nodes)
	for _, n := range nodes {
		require.NotEmpty(t, n.examples, "signalbox %s --help has no example", n.path)
		if !n.leaf {
			continue
		}
		require.True(t, shown[n.path].succeeds || elsewhere[n.path] != "", "no script shows a success of signalbox %s", n.path)
		require.True(t, shown[n.path].fails, "no script shows a refusal of signalbox %s", n.path)
	}
	h.try(nodes)
}

// helper runs the help of commands.
type helper struct {
	t    *testing.T
	bin  string
	home string
}

// walk returns a command and all below it.
func (h *helper) walk(path string) []node {
	h.t.Helper()
	n := node{path: path, leaf: true}
	var below []string
	section := ""
	for line := range strings.Lines(h.run("exec \"$BIN\" " + path + " --help")) {
		line = strings.TrimRight(line, " \n")
		if m := helpSection.FindStringSubmatch(line); m != nil {
			section = m[1]
			continue
		}
		switch text := strings.TrimSpace(line); {
		case text == "" || section == "" || section == "FLAGS":
		case section == "USAGE":
			require.True(h.t, strings.HasPrefix(text+" ", strings.TrimSpace("signalbox "+path)+" "), "the help of %q is that of another command: %s", path, text)
		case section == "EXAMPLES":
			n.examples = append(n.examples, text)
		default:
			m := helpEntry.FindStringSubmatch(line)
			require.NotNil(h.t, m, "%s: %q is not a command", path, line)
			below = append(below, m[1])
		}
	}
	nodes := make([][]node, len(below))
	var wg sync.WaitGroup
	for i, name := range below {
		n.leaf = false
		wg.Go(func() { nodes[i] = h.walk(strings.TrimSpace(path + " " + name)) })
	}
	wg.Wait()
	return append([]node{n}, slices.Concat(nodes...)...)
}

// try runs each line of the examples with --help at its end, so that nothing happens, but each command and flag must
// exist. Of signalbox run, --help is the first flag, because the last ones belong to the user's command. The examples of a
// command must contain the command itself.
func (h *helper) try(nodes []node) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(filepath.Join(h.home, "token.txt"), nil, 0o600))
	var script strings.Builder
	script.WriteString("set -eu\nsignalbox() {\n" +
		"  if [ \"$1\" = run ]; then shift; set -- run --help \"$@\"; else set -- \"$@\" --help; fi\n" +
		"  \"$BIN\" \"$@\" > /dev/null || { echo \"refused: $*\"; exit 1; }\n}\n")
	for _, n := range nodes {
		own := false
		for _, line := range n.examples {
			if strings.HasPrefix(line, "#") {
				continue
			}
			own = own || n.path == "" || strings.Contains(line, "signalbox "+n.path)
			if strings.HasPrefix(line, "signalbox ") {
				script.WriteString(piped.Split(line, 2)[0] + "\n")
			}
		}
		require.True(h.t, own, "no example of signalbox %s shows the command: %q", n.path, n.examples)
	}
	h.run(script.String())
}

// run runs a script of a shell, in which BIN is the program, and returns its output.
func (h *helper) run(script string) string {
	h.t.Helper()
	cmd := shell(h.t, script)
	cmd.Dir, cmd.Env = h.home, append(plainEnv(h.home), "BIN="+h.bin)
	out, err := cmd.CombinedOutput()
	require.NoError(h.t, err, "%s\n%s", script, out)
	return string(out)
}

// seen states what the scripts show of a command.
type seen struct{ succeeds, fails bool }

// scriptedCommands returns what the scripts show of each command. Each script must compare its transcript.
func scriptedCommands(t *testing.T, nodes []node) map[string]seen {
	t.Helper()
	shown := map[string]seen{}
	for _, file := range scriptFiles(t) {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		compares := false
		for line := range strings.Lines(string(archive.Comment)) {
			words := strings.Fields(line)
			switch {
			case len(words) == 0:
			case words[0] == "run":
				mark(shown, nodes, words[1:], true)
			case words[0] == "fails":
				mark(shown, nodes, words[2:], false)
			case words[0] == "cmp":
				compares = compares || strings.TrimSpace(line) == "cmp transcript want"
			}
		}
		require.True(t, compares, "%s does not compare its transcript", file)
	}
	return shown
}

// mark notes the result of a command line for the longest command with which it begins, after the flags of signalbox.
func mark(shown map[string]seen, nodes []node, words []string, ok bool) {
	for len(words) > 1 && strings.HasPrefix(words[0], "--") {
		words = words[2:]
	}
	for n := len(words); n > 0; n-- {
		path := strings.Join(words[:n], " ")
		if slices.ContainsFunc(nodes, func(n node) bool { return n.path == path }) {
			s := shown[path]
			s.succeeds, s.fails = s.succeeds || ok, s.fails || !ok
			shown[path] = s
			return
		}
	}
}
