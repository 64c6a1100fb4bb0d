package command

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

// maxCompared bounds the runs of a comparison, as the server does.
const maxCompared = 100

// comparison is a response of POST /api/runs/compare.
type comparison struct {
	RunIDs  []string `json:"run_ids"`
	Missing []string `json:"missing"`
	Hparams []struct {
		Key    string                     `json:"key"`
		Values map[string]json.RawMessage `json:"values"`
	} `json:"hparams"`
	Metrics []struct {
		Key  string `json:"key"`
		Runs []struct {
			RunID   string `json:"run_id"`
			Summary struct {
				Latest *point `json:"latest"`
				Best   *point `json:"best"`
			} `json:"summary"`
		} `json:"runs"`
	} `json:"metrics"`
}

func (t *tool) compare() *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use: "compare JOB|RUN...", Short: "Show what differs between runs: hyperparameters and metrics", Args: arguments(2, maxCompared),
		Example:           "signalbox runs compare run-a run-b\nsignalbox runs compare run-a run-b run-c --key val/exact_match",
		ValidArgsFunction: t.complete(runKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.Client()
			if err != nil {
				return err
			}
			ids := make([]string, len(args))
			for i, called := range args {
				id, err := t.source(cmd.Context(), c, called)
				if err != nil {
					return err
				}
				if ids[i], err = t.runOf(cmd, c, id); err != nil {
					return err
				}
			}
			body := map[string]any{"run_ids": ids}
			if len(keys) > 0 {
				body["keys"] = keys
			}
			var raw json.RawMessage
			if err := c.Post(cmd.Context(), "/api/runs/compare", body, &raw); err != nil {
				return err
			}
			return t.printComparison(raw, args, ids)
		},
	}
	cmd.Flags().StringSliceVarP(&keys, "key", "k", nil, "only this metric; can be repeated")
	return cmd
}

// printComparison prints a row for each hyperparameter and metric and a column for each run.
func (t *tool) printComparison(raw json.RawMessage, called, ids []string) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if !p.ForPeople() {
		return p.Object(nil, raw)
	}
	var found comparison
	if err := json.Unmarshal(raw, &found); err != nil {
		return fmt.Errorf("decode the comparison: %w", err)
	}
	columns := []output.Column{{Name: "key"}}
	for i, id := range ids {
		columns = append(columns, output.Column{Name: called[i], Path: id, As: compactText, Right: true})
	}
	var rows []json.RawMessage
	add := func(key string, values map[string]any) error {
		values["key"] = key
		row, err := json.Marshal(values)
		rows = append(rows, row)
		return err
	}
	for _, h := range found.Hparams {
		values := map[string]any{}
		for id, value := range h.Values {
			values[id] = value
		}
		if err := add(h.Key, values); err != nil {
			return fmt.Errorf("print the comparison: %w", err)
		}
	}
	for _, m := range found.Metrics {
		values := map[string]any{}
		for _, r := range m.Runs {
			shown := r.Summary.Best
			if shown == nil {
				shown = r.Summary.Latest
			}
			if shown != nil {
				values[r.RunID] = output.Digits(float64(shown.Value))
			}
		}
		if err := add(m.Key, values); err != nil {
			return fmt.Errorf("print the comparison: %w", err)
		}
	}
	if len(rows) == 0 {
		t.Say("nothing differs")
		return nil
	}
	if err := p.Rows(columns, rows); err != nil {
		return err
	}
	if len(found.Missing) > 0 {
		t.Say("not found: %v", found.Missing)
	}
	return nil
}
