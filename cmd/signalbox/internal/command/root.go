// Package command owns the commands of signalbox: first a noun, then a verb. Each is one or a few calls of the REST API.
// The package promises that results go to standard output in the format that the user has chosen, that everything else
// goes to standard error, that a command that destroys something is confirmed first, and that the exit status states what
// kind of problem there was.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"charm.land/fang/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

// tool builds the commands of one run of the program.
type tool struct {
	*session.Session

	// terminal is the terminal itself, for a screen that reads single keys. In ends with the command and is not a terminal.
	terminal io.Reader
}

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
	t := &tool{Session: &session.Session{Env: env, Flags: &session.Flags{}}, terminal: env.In}
	root := &cobra.Command{
		Use:   "signalbox",
		Short: "Train, judge and serve models on your organisation's GPUs",
		Long: `The command line of a Signalbox installation. Everything it does goes through the REST API.

Log in once with "signalbox login". Results go to standard output, everything else to standard error. Objects are called by their id or name.

Exit statuses: 0 done, 1 another error, 2 wrong usage or request, 3 not found, 4 login needed, 5 forbidden, 6 conflict, 7 too many requests,
8 server not reachable or time over, 9 ended otherwise than waited for, 130 interrupted.`,
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
			if err := oneOf("color", t.Color, colors()); err != nil {
				return err
			}
			_, err := t.Printer()
			return err
		},
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return session.Usage("%s; see %s --help", flagProblem(err), cmd.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Jobs and runs"}, &cobra.Group{ID: groupModels, Title: "Data, models and deployments"},
		&cobra.Group{ID: groupPeople, Title: "People"}, &cobra.Group{ID: groupCluster, Title: "Machines and administration"},
		&cobra.Group{ID: groupTool, Title: "This tool"},
	)
	root.SetCompletionCommandGroupID(groupTool)
	t.globalFlags(root)
	root.AddCommand(t.commands()...)
	root.SetHelpCommand(t.help())
	completions(root)
	readable(root)
	return root, t
}

// readable joins the lines of each paragraph of the long descriptions, which the help wraps for the terminal, and leaves
// the flags that all commands have to the help of signalbox itself.
func readable(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		cmd.SetHelpFunc(func(shown *cobra.Command, args []string) {
			shown.InheritedFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "output" && f.Name != "help" })
			root.HelpFunc()(shown, args)
			fmt.Fprintln(shown.OutOrStdout(), "  More flags, such as --jq, --columns and --project: signalbox --help")
		})
	}
	flow(root)
}

// commands returns the commands below signalbox.
func (t *tool) commands() []*cobra.Command {
	return []*cobra.Command{
		t.run(), t.initJob(), t.preflightCommand(), t.submitAlias(), t.jobs(), t.runs(), t.ps(), t.logsAlias(),
		t.metrics(), t.samples(), t.artifacts(), t.recipes(), t.find(),
		t.datasets(), t.models(), t.deployments(), t.chat(), t.playground(), t.rubrics(), t.environments(), t.evaluations(),
		t.projects(), t.teams(), t.shares(), t.quota(), t.profile(),
		t.fleets(), t.cluster(), t.admin(), t.audit(),
		t.login(), t.logout(), t.whoami(), t.contexts(), t.doctor(), t.api(), t.explain(), t.version(), t.dev(), t.demo(),
	}
}

// colors are the values of --color.
func colors() []string { return []string{"auto", "always", "never"} }

func (t *tool) globalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&t.Output, "output", "o", string(output.Table), "format of the result: table, wide, json, yaml, jsonl, or name (one id per line)")
	f.StringVar(&t.Filter, "jq", "", "jq expression for the JSON of the result: an array for a list, each row with -o jsonl")
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
	for name, values := range map[string][]string{"output": output.Formats(), "color": colors()} {
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
	style(ctx, root, env.Version)
	root.SetArgs(args)
	// All waiting of the command ends with its context, which the time of --timeout bounds.
	limited, end := ctx, context.CancelFunc(func() {})
	wrap(root, func(cmd *cobra.Command) error {
		if cmd.Flags().Changed("timeout") {
			if t.Timeout <= 0 {
				return session.Usage("--timeout must be a time such as 30s")
			}
			limited, end = context.WithTimeoutCause(cmd.Context(), t.Timeout, errTimeout)
			cmd.SetContext(limited)
		}
		t.In = session.Interruptible(cmd.Context(), t.In)
		return nil
	})
	err := root.ExecuteContext(ctx)
	if err != nil && errors.Is(context.Cause(limited), errTimeout) {
		err = fmt.Errorf("%w: %s", errTimeout, t.Timeout)
	}
	end()
	return t.report(ctx, err)
}

// style lets fang install its help and the command man, by the execution of a command that does nothing. Fang does not
// execute the command of the user: after an error, it would ask the terminal for its colours, and wait four seconds if the
// terminal does not respond.
func style(ctx context.Context, root *cobra.Command, version string) {
	nothing := &cobra.Command{Use: "nothing", Hidden: true, PersistentPreRun: func(*cobra.Command, []string) {}, Run: func(*cobra.Command, []string) {}}
	root.AddCommand(nothing)
	root.SetArgs([]string{nothing.Name()})
	must(fang.Execute(ctx, root, fang.WithVersion(version)))
	root.RemoveCommand(nothing)
}

// wrap calls before in front of each command.
func wrap(root *cobra.Command, before func(*cobra.Command) error) {
	pre := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := before(cmd); err != nil {
			return err
		}
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
	return noCommand(cmd, args[0])
}

// noCommand returns the usage error for the name of a command that does not exist.
func noCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	if below := elsewhere(cmd.Root(), name); below != "" && cmd == cmd.Root() {
		return session.Usage("%q is not a command of %q; did you mean %s?", name, cmd.CommandPath(), below)
	}
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return session.Usage("%q is not a command of %q; did you mean %s?", name, cmd.CommandPath(), near[0])
	}
	return session.Usage("%q is not a command of %q; see %s --help", name, cmd.CommandPath(), cmd.CommandPath())
}

// elsewhere returns the path of the first command with a name, at any depth, or "".
func elsewhere(cmd *cobra.Command, name string) string {
	for _, below := range cmd.Commands() {
		if below.Name() == name && !below.Hidden {
			return below.CommandPath()
		}
		if path := elsewhere(below, name); path != "" {
			return path
		}
	}
	return ""
}

// flagProblem returns the error of a flag without the words of the Go function that parsed it.
func flagProblem(err error) string {
	text, _, _ := strings.Cut(err.Error(), ": strconv.")
	return text
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
