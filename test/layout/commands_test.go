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
	// usageLine matches the command in a usage text of signalbox.
	usageLine = regexp.MustCompile(`usage: signalbox ([a-z]+(?: [a-z]+)*)`)
	// namedCommand matches a command of signalbox in a document or message.
	namedCommand = regexp.MustCompile("`signalbox ([a-z]+(?: [a-z]+)*)")
)

// commands returns the commands of signalbox, such as `audit verify`, from their usage texts.
func commands(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "cmd/signalbox/internal/command/*.go"))
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range usageLine.FindAllStringSubmatch(string(raw), -1) {
			all = append(all, m[1])
		}
	}
	require.NotEmpty(t, all)
	return all
}

// unknownCommands returns the commands of signalbox that the given text contains but the list known does not.
func unknownCommands(text string, known []string) (unknown []string) {
	for _, m := range namedCommand.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(known, m[1]) {
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
	require.Equal(t, []string{"recipe lock"}, unknownCommands(text, []string{"demo", "audit verify"}))
}
