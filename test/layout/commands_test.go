package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// heading matches the heading of a command in the reference.
	heading = regexp.MustCompile(`(?m)^#+ signalbox ([a-z-]+(?: [a-z-]+)*)$`)
	// namedCommand matches a command of signalbox in a document or message.
	namedCommand = regexp.MustCompile("`signalbox ([a-z]+(?:-[a-z]+)*(?: [a-z]+(?:-[a-z]+)*)*)")
)

// commands returns the commands of signalbox, such as `audit verify`, from their reference, which is generated.
func commands(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "docs/reference/cli/*.md"))
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range heading.FindAllStringSubmatch(string(raw), -1) {
			all = append(all, m[1])
		}
	}
	require.NotEmpty(t, all)
	return all
}

// unknownCommands returns the commands of signalbox that the given text contains but the list known does not. The words
// after a known command are its arguments, unless others are below it.
func unknownCommands(text string, known []string) (unknown []string) {
	for _, m := range namedCommand.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[1])
		longest := len(words)
		for longest > 0 && !slices.Contains(known, strings.Join(words[:longest], " ")) {
			longest--
		}
		command := strings.Join(words[:longest], " ")
		below := func(other string) bool { return strings.HasPrefix(other, command+" ") }
		if longest == 0 || longest < len(words) && slices.ContainsFunc(known, below) {
			unknown = append(unknown, m[1])
		}
	}
	return unknown
}

func TestCommandsInDocumentsExist(t *testing.T) {
	t.Parallel()
	known := commands(t)
	pages := []string{errorsPage, "README.md", "SECURITY.md", "deploy/README.md"}
	for _, page := range append(pages, guides(t)...) {
		raw, err := os.ReadFile(filepath.Join(root(t), page))
		require.NoError(t, err)
		require.Empty(t, unknownCommands(string(raw), known), "%s: signalbox does not have these commands", page)
	}
}

// TestCommandsInMessagesExist checks the messages, which name commands as remedies.
func TestCommandsInMessagesExist(t *testing.T) {
	t.Parallel()
	known := commands(t)
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(root(t), s.path))
		require.NoError(t, err)
		require.Empty(t, unknownCommands(string(raw), known), "%s: signalbox does not have these commands", s.path)
	}
}

func TestUnknownCommands(t *testing.T) {
	t.Parallel()
	text := "Run `signalbox audit verify --server URL` or `signalbox recipe lock --update`; `signalbox` alone shows both."
	require.Equal(t, []string{"recipe lock"}, unknownCommands(text, []string{"demo", "audit", "audit verify"}))
	text = "`signalbox jobs get my-job`, `signalbox jobs gte my-job`, `signalbox jobs`"
	require.Equal(t, []string{"jobs gte my-job"}, unknownCommands(text, []string{"jobs", "jobs get"}))
}
