// Package command owns the commands of signalbox: first a noun, then a verb. Each is one or a few calls of the REST API.
// The package promises that results go to standard output in the format that the user has chosen, that everything else
// goes to standard error, that a command that destroys something requires a confirmation, and that the exit status states what
// kind of problem there was.
package command

import (
	"context"
	"io"

	"charm.land/fang/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

// tool builds the commands of one run of the program.
type tool struct{ *session.Session }

// The groups in which the help of signalbox lists the commands.
const (
	groupWork    = "work"
	groupModels  = "models"
	groupPeople  = "people"
	groupCluster = "cluster"
	groupTool    = "tool"
)

// New returns the command signalbox with all commands below it.
func New(env *session.Env) *cobra.Command {
	root, _ := build(env)
	return root
}

func build(env *session.Env) (*cobra.Command, *tool) {
	t := &tool{&session.Session{Env: env, Flags: &session.Flags{}}}
	root := &cobra.Command{
		Use:   "signalbox",
		Short: "Train, judge and serve models on your organisation's GPUs",
		Long: `signalbox is the command line of a Signalbox installation. Everything it does goes through the REST API.

Log in once with "signalbox login". Results go to standard output, everything else to standard error.`,
		Example: `# log in, look at the jobs, follow the log of one
signalbox login --server https://signalbox.example.com
signalbox jobs ls
signalbox logs my-job --follow`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			var explicit []string
			cmd.Flags().Visit(func(f *pflag.Flag) { explicit = append(explicit, f.Name) })
			t.Explicit(explicit)
			_, err := t.Printer()
			return err
		},
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &session.UsageError{Problem: err.Error()} })
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Jobs and runs"}, &cobra.Group{ID: groupModels, Title: "Data, models and deployments"},
		&cobra.Group{ID: groupPeople, Title: "People"}, &cobra.Group{ID: groupCluster, Title: "Machines and administration"},
		&cobra.Group{ID: groupTool, Title: "This tool"},
	)
	root.SetHelpCommandGroupID(groupTool)
	root.SetCompletionCommandGroupID(groupTool)
	t.globalFlags(root)
	root.AddCommand(t.commands()...)
	return root, t
}

// commands returns the commands below signalbox.
func (t *tool) commands() []*cobra.Command {
	return []*cobra.Command{
		t.jobs(), t.runs(), t.ps(), t.logsAlias(), t.metrics(), t.samples(), t.artifacts(), t.recipes(), t.find(),
		t.datasets(), t.models(), t.deployments(), t.chat(),
		t.projects(), t.teams(), t.shares(), t.quota(),
		t.fleets(), t.cluster(), t.admin(), t.audit(),
		t.login(), t.logout(), t.whoami(), t.contexts(), t.doctor(), t.api(), t.explain(), t.version(), t.demo(),
	}
}

func (t *tool) globalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&t.Output, "output", "o", string(output.Table), "format of the result: table, wide, json, yaml, jsonl or name")
	f.StringVar(&t.Filter, "jq", "", "jq expression that is applied to the JSON of the result")
	f.StringSliceVar(&t.Columns, "columns", nil, "columns of a table, separated by commas; any path of -o json can be one")
	f.BoolVar(&t.NoHeads, "no-headers", false, "print tables without headings")
	f.BoolVarP(&t.Quiet, "quiet", "q", false, "print results only")
	f.CountVarP(&t.Verbose, "verbose", "v", "print each request to standard error")
	f.StringVar(&t.Flags.Server, "server", "", "address of the installation (SERVICE_SERVER)")
	f.StringVar(&t.Context, "context", "", "login to use, of those in signalbox context ls (SERVICE_CONTEXT)")
	f.StringVar(&t.Project, "project", "", "project by its key or id (SERVICE_PROJECT)")
	f.BoolVar(&t.NoInput, "no-input", false, "never ask anything")
	f.StringVar(&t.Color, "color", "auto", "when to use colours: auto, always or never")
	f.DurationVar(&t.Timeout, "timeout", 0, "end the command after this time, such as 30s")
	for name, values := range map[string][]string{"output": output.Formats(), "color": {"auto", "always", "never"}} {
		must(root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
}

// must ends the program if the tree of commands itself is wrong, which each test would show.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Execute runs the command line args, prints its error and returns the exit status.
func Execute(ctx context.Context, env *session.Env, args []string) int {
	root, t := build(env)
	root.SetArgs(args)
	bounded := context.CancelFunc(func() {})
	wrap(root, func(cmd *cobra.Command) {
		if t.Timeout > 0 {
			timed, cancel := context.WithTimeoutCause(cmd.Context(), t.Timeout, errTimeout)
			cmd.SetContext(timed)
			bounded = cancel
		}
	})
	err := fang.Execute(ctx, root,
		fang.WithVersion(env.Version), fang.WithoutVersion(),
		fang.WithErrorHandler(func(io.Writer, fang.Styles, error) {}))
	bounded()
	return t.report(ctx, err)
}

// wrap calls before in front of each command.
func wrap(root *cobra.Command, before func(*cobra.Command)) {
	pre := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		before(cmd)
		return pre(cmd, args)
	}
}

// noArguments refuses all arguments. For a command with others below it, the argument is a misspelled command.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return session.Usage("%q takes no argument, but %q was given", cmd.CommandPath(), args[0])
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return session.Usage("%q is not a command of %q; did you mean %s?", args[0], cmd.CommandPath(), near[0])
	}
	return session.Usage("%q is not a command of %q; see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
}

// arguments requires from least to most arguments. Usage names them in an error.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return session.Usage("an argument is missing; usage: %s", cmd.UseLine())
		case len(args) > most:
			return session.Usage("too many arguments, from %q on; usage: %s", args[most], cmd.UseLine())
		}
		return nil
	}
}

// noun returns a command that only has others below it.
func noun(use, group, short, example string, aliases []string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, GroupID: group, Short: short, Example: example, Aliases: aliases,
		Args: noArguments, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(verbs...)
	return cmd
}
