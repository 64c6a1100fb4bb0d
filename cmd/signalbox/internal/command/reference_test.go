package command_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

var write = flag.Bool("write", false, "write docs/reference/cli")

// TestReference requires that docs/reference/cli describes each command, from the same texts as --help.
func TestReference(t *testing.T) {
	t.Parallel()
	root := command.New(&session.Env{Clock: clock.Real()})
	dir, err := filepath.Abs("../../../../docs/reference/cli")
	require.NoError(t, err)
	for _, group := range root.Groups() {
		page := filepath.Join(dir, group.ID+".md")
		text := referencePage(root, group)
		if *write {
			require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
			continue
		}
		present, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(string(present), text), "the page is not up to date; run: go test ./cmd/signalbox/internal/command -run TestReference -args -write")
	}
}

func TestCommands_haveExamples(t *testing.T) {
	t.Parallel()
	each(command.New(&session.Env{Clock: clock.Real()}), func(cmd *cobra.Command) {
		require.Contains(t, cmd.Example, "signalbox ", "%s has no example", cmd.CommandPath())
		require.NotEmpty(t, cmd.Short, "%s has no description", cmd.CommandPath())
		require.False(t, strings.HasSuffix(cmd.Short, "."), "%s: the description ends with a full stop", cmd.CommandPath())
	})
}

// The page of the command line names each command in the row of its group.
func TestReference_index(t *testing.T) {
	t.Parallel()
	root := command.New(&session.Env{Clock: clock.Real()})
	raw, err := os.ReadFile("../../../../docs/reference/cli.md")
	require.NoError(t, err)
	for _, cmd := range root.Commands() {
		if cmd.Hidden || cmd.Name() == "completion" {
			continue
		}
		row := regexp.MustCompile(`(?m)^\| \[.*\]\(cli/` + cmd.GroupID + `\.md\) \|.*$`).FindString(string(raw))
		require.Contains(t, row, "`"+cmd.Name()+"`", "the table lacks signalbox %s", cmd.Name())
	}
}

// each calls fn with each command that a user can run, in the order of the help.
func each(root *cobra.Command, fn func(*cobra.Command)) {
	for _, cmd := range root.Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		fn(cmd)
		each(cmd, fn)
	}
}

// referencePage returns the page of the commands of a group.
func referencePage(root *cobra.Command, group *cobra.Group) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands: %s\n\nThis page is generated from the texts of `--help`. [The command line](../cli.md) has what all commands share.\n",
		strings.ToLower(group.Title[:1])+group.Title[1:])
	each(root, func(cmd *cobra.Command) {
		top := cmd
		for top.Parent() != root {
			top = top.Parent()
		}
		if top.GroupID == group.ID {
			describe(&b, cmd)
		}
	})
	return b.String()
}

// describe writes what --help shows of a command.
func describe(b *strings.Builder, cmd *cobra.Command) {
	level := "##"
	if cmd.Parent().HasParent() {
		level = "###"
	}
	fmt.Fprintf(b, "\n%s %s\n\n", level, cmd.CommandPath())
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(b, "%s\n", escaped(text))
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(b, "\nAlso: `%s`.\n", strings.Join(cmd.Aliases, "`, `"))
	}
	usage := ""
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		usage = strings.TrimSuffix(cmd.UseLine(), " [flags]") + "\n\n"
	}
	fmt.Fprintf(b, "\n```sh\n%s%s\n```\n", usage, cmd.Example)
	rows := ""
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		rows += fmt.Sprintf("| `%s` | %s |\n", name, escaped(f.Usage)+standard(f))
	})
	if rows != "" {
		fmt.Fprintf(b, "\n| Flag | Meaning |\n|---|---|\n%s", rows)
	}
}

// standard returns the default of a flag, if it is worth a word.
func standard(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "[]", "false", "-1", "0", "0s":
		return ""
	}
	return "; default " + strings.Trim(f.DefValue, "[]")
}

func escaped(text string) string { return strings.NewReplacer("|", `\|`, "<", `\<`).Replace(text) }
