package command

import (
	"strings"

	"github.com/spf13/cobra"
)

// help returns the command that prints the help of another one.
func (t *tool) help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", GroupID: groupTool, Short: "Show the help of a command", Example: "signalbox help jobs submit",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest := cmd.Root(), args
			for len(rest) > 0 {
				next := below(found, rest[0])
				if next == nil {
					return noCommand(found, rest[0])
				}
				found, rest = next, rest[1:]
			}
			found.InitDefaultHelpFlag() // this also adds the flags of the commands above
			return found.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			found := cmd.Root()
			for _, arg := range args {
				if found = below(found, arg); found == nil {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
			}
			var out []cobra.Completion
			for _, sub := range found.Commands() {
				if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
					out = append(out, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// below returns the command with a name, or nil.
func below(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

// completions gives the commands that cobra adds for completion what all others have: examples, and usage errors.
func completions(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion := below(root, "completion")
	completion.Short = "Print the script with which a shell completes commands, names and ids"
	completion.Long = ""
	completion.Example = "source <(signalbox completion bash)"
	completion.Args = noArguments
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	examples := map[string]string{
		"bash":       "source <(signalbox completion bash)\nsignalbox completion bash > ~/.local/share/bash-completion/completions/signalbox",
		"zsh":        "source <(signalbox completion zsh)\nsignalbox completion zsh > ~/.zfunc/_signalbox",
		"fish":       "signalbox completion fish > ~/.config/fish/completions/signalbox.fish",
		"powershell": "signalbox completion powershell | Out-String | Invoke-Expression",
	}
	for _, shell := range completion.Commands() {
		shell.Short = "Print the script for " + shell.Name()
		shell.Long = shell.Short + ". The example completes in this shell; a file that the shell reads at its start is for all later ones."
		shell.Example = examples[shell.Name()]
		shell.Args = noArguments
	}
}

// flow joins the lines of each paragraph of the long descriptions, because the help wraps them at the width of the
// terminal.
func flow(cmd *cobra.Command) {
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range cmd.Commands() {
		flow(sub)
	}
}
