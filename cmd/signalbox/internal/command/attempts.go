package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func (t *tool) attempts() *cobra.Command {
	rows := kind{one: "attempt", many: "attempts", columns: []output.Column{
		{Name: "number", Right: true},
		{Name: "state"},
		{Name: "phase"},
		{Name: "node", Path: "node_id"},
		{Name: "batch_id", Wide: true},
		{Name: "batch_nodes", Wide: true},
		{Name: "exit", Path: "exit_code", Right: true},
		{Name: "reason", Path: "end_reason"},
		{Name: "message"},
		{Name: "started", Path: "starting_at", As: output.Time},
		{Name: "ended", Path: "ended_at", As: output.Time},
		{Name: "resumed_from", Wide: true},
	}}
	return t.part(jobKind(), "attempts", "attempts", rows, "List the attempts of a job", "signalbox jobs attempts my-job\nsignalbox jobs attempts my-job -o wide")
}

// getJob returns the command that shows a job. For people, it adds what Slurm knows of the newest attempt.
func (t *tool) getJob() *cobra.Command {
	k := jobKind()
	cmd := t.get(k, "Show a job", "signalbox jobs get my-job\nsignalbox jobs get my-job --jq .spec")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, id, err := t.object(cmd, k, args[0])
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := c.Get(cmd.Context(), k.at(id), nil, &raw); err != nil {
			return err
		}
		p, err := t.Printer()
		if err != nil {
			return err
		}
		if p.ForPeople() {
			if raw, err = withSlurm(cmd, c, k.at(id), raw); err != nil {
				return err
			}
		}
		return p.Object(k.all(), raw)
	}
	return cmd
}

// withSlurm adds the member slurm to a job whose newest attempt Slurm has: its id there and its nodes.
func withSlurm(cmd *cobra.Command, c *client.Client, path string, raw json.RawMessage) (json.RawMessage, error) {
	var job map[string]json.RawMessage
	if err := json.Unmarshal(raw, &job); err != nil {
		return nil, fmt.Errorf("decode a job: %w", err)
	}
	if number := string(job["attempt"]); number == "" || number == "0" {
		return raw, nil
	}
	var newest slurmAttempt
	_, _, err := c.Each(cmd.Context(), path+"/attempts", nil, everyAttempt, func(row json.RawMessage) error {
		newest = slurmAttempt{}
		if err := json.Unmarshal(row, &newest); err != nil {
			return fmt.Errorf("decode an attempt: %w", err)
		}
		return nil
	})
	if err != nil || newest.ID == "" {
		return raw, err
	}
	text, err := json.Marshal(newest.String())
	if err != nil {
		return nil, fmt.Errorf("print a job: %w", err)
	}
	job["slurm"] = text
	return json.Marshal(job)
}

// slurmAttempt is what Slurm knows of an attempt.
type slurmAttempt struct {
	ID    string   `json:"batch_id"`
	Nodes []string `json:"batch_nodes"`
}

// String returns the id of the attempt in Slurm, and its nodes once it has some.
func (a slurmAttempt) String() string {
	if len(a.Nodes) == 0 {
		return "job " + a.ID
	}
	return "job " + a.ID + " on " + strings.Join(a.Nodes, ", ")
}
