package command

import (
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

func sampleKind() kind {
	return kind{one: "sample", many: "samples", columns: []output.Column{
		{Name: "step", Right: true},
		{Name: "index", Right: true},
		{Name: "reward", Right: true, As: output.Number},
		{Name: "user", As: conversation},
		{Name: "assistant", As: conversation},
		{Name: "env", As: conversation, Wide: true},
		{Name: "attempt", Right: true, Wide: true},
		{Name: "id", Wide: true},
	}}
}

// conversation formats a text, or the last message of a list of messages, on one line.
func conversation(value any, now time.Time) string {
	switch v := value.(type) {
	case []any:
		if len(v) > 0 {
			return conversation(v[len(v)-1], now)
		}
		return ""
	case map[string]any:
		if content, ok := v["content"]; ok {
			return conversation(content, now)
		}
		if text, ok := v["text"]; ok {
			return conversation(text, now)
		}
	}
	return strings.TrimSpace(output.Text(value, now))
}

func (t *tool) samples() *cobra.Command {
	var limit int
	var rounds bool
	flags := &filterFlags{}
	cmd := &cobra.Command{
		Use: "samples JOB|RUN", GroupID: groupWork, Short: "Show what a model wrote in validation, with its rewards",
		Long: `Show the samples of the last validation round of a job or run, or of the rounds that are selected.

A table shows the first line of long texts; -o json has them whole. --rounds lists the validation rounds.`,
		Example: `signalbox samples my-job --max-reward 0
signalbox samples my-job --step 900 -o jsonl --jq .assistant
signalbox samples my-job --rounds`,
		Args: arguments(1, 1), ValidArgsFunction: t.complete(jobKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if err := flags.query(query, t.now()); err != nil {
				return err
			}
			c, id, err := t.sourceOf(cmd, args[0])
			if err != nil {
				return err
			}
			path := runPath(id)
			if rounds && len(query) > 0 {
				return session.Usage("--rounds lists all rounds, without another filter")
			}
			if rounds {
				return t.printList(cmd, c, kind{one: "round", many: "rounds", columns: validationColumns()}, path+"/validations", nil, limit)
			}
			return t.printList(cmd, c, sampleKind(), path+"/samples", query, limit)
		},
	}
	*flags = *addFilters(cmd.Flags(), cmd, []filter{
		{flag: "step", param: "step", usage: "only the round at this step"},
		{flag: "from-step", param: "from_step", usage: "all rounds from this step on"},
		{flag: "to-step", param: "to_step", usage: "all rounds up to this step"},
		{flag: "min-reward", param: "min_reward", usage: "only samples with at least this reward"},
		{flag: "max-reward", param: "max_reward", usage: "only samples with at most this reward"},
		{flag: "text", param: "text", usage: "only samples that contain this text"},
		{flag: "attempt", param: "attempt", usage: "only samples of this attempt, or all"},
		{flag: "rank", param: "rank", usage: "only samples of the process with this rank"},
	})
	cmd.Flags().BoolVar(&rounds, "rounds", false, "list the validation rounds instead")
	addLimit(cmd, &limit)
	return cmd
}

// runPath returns the path of a run, whose id may be that of its job.
func runPath(id string) string { return runKind().at(id) }
