package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// preflightCommand returns the command that runs the checks of a submission.
func (t *tool) preflightCommand() *cobra.Command {
	o := submitOptions{dryRun: true}
	cmd := &cobra.Command{
		Use: "preflight [FILE]", GroupID: groupWork, Short: "Check a job file and create no job (submit --dry-run)", Args: arguments(0, 1),
		Long:    `Run all checks of a submission, also those after the first refusal, and create no job. The exit status is 2 if the job would be refused.`,
		Example: "signalbox preflight job.yaml\nsignalbox preflight job.yaml -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.nameFile(args); err != nil {
				return err
			}
			return t.runSubmit(cmd, o)
		},
	}
	addJobFile(cmd, &o)
	return cmd
}

// preflight runs the checks of a submission and prints their results.
func (t *tool) preflight(cmd *cobra.Command, c *client.Client, file jobFile, body map[string]any) error {
	var raw json.RawMessage
	if err := c.Post(cmd.Context(), "/api/submit/preflight", body, &raw); err != nil {
		return t.explainRefusal(cmd.Context(), c, file, err)
	}
	var report struct {
		OK    bool              `json:"ok"`
		Gates []json.RawMessage `json:"gates"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return fmt.Errorf("decode the result of the checks: %w", err)
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if !p.ForPeople() {
		err = p.Object(nil, raw)
	} else {
		p.Width = 0
		err = p.Rows([]output.Column{{Name: "gate"}, {Name: "status"}, {Name: "detail", As: withoutGate}}, report.Gates)
	}
	if err == nil && !report.OK {
		t.explainGates(cmd.Context(), c, file, report.Gates)
		return session.Usage("the job would be refused")
	}
	return err
}

// withoutGate formats the detail of a gate without its name, which has a column of its own.
func withoutGate(value any, now time.Time) string {
	text := output.Text(value, now)
	if name, rest, ok := strings.Cut(text, ": "); ok && !strings.Contains(name, " ") {
		return rest
	}
	return text
}
