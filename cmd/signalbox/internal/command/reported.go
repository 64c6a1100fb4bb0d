package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

// reported returns a command that lists what a run has reported: the rows of path below the run.
func (t *tool) reported(verb, path string, rows kind, short, example string) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: verb + " JOB|RUN", Short: short, Example: example, Args: arguments(1, 1), ValidArgsFunction: t.complete(runKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.sourceOf(cmd, args[0])
			if err != nil {
				return err
			}
			return t.printList(cmd, c, rows, runPath(id)+"/"+path, nil, limit)
		},
	}
	addLimit(cmd, &limit)
	return cmd
}

func (t *tool) benchmarks() *cobra.Command {
	rows := kind{one: "score", many: "scores", columns: []output.Column{
		{Name: "name"},
		{Name: "metric"},
		{Name: "value", Right: true, As: output.Number},
		{Name: "stderr", Right: true, As: output.Number},
		{Name: "n", Right: true},
		{Name: "version"},
		{Name: "attempt", Right: true, Wide: true},
		{Name: "at", Path: "reported_at", As: output.Time, Wide: true},
	}}
	return t.reported("benchmarks", "benchmarks", rows, "List the benchmark scores of a run", "signalbox runs benchmarks my-run")
}

func (t *tool) hardware() *cobra.Command {
	rows := kind{one: "series", many: "series", columns: []output.Column{
		{Name: "key"}, {Name: "node"}, {Name: "gpu"}, {Name: "points", Right: true, As: output.Count}, {Name: "last", Path: "points", Right: true, As: lastValue},
	}}
	return t.reported("hardware", "hardware", rows, "List what the hardware of a run reported: load, memory, temperature", "signalbox runs hardware my-run")
}

// hparams prints the hyperparameters of a run, one per line.
func (t *tool) hparams() *cobra.Command {
	return &cobra.Command{
		Use: "hparams JOB|RUN", Short: "Print the hyperparameters of a run", Example: "signalbox runs hparams my-run\nsignalbox runs hparams my-run -o yaml",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(runKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.sourceOf(cmd, args[0])
			if err != nil {
				return err
			}
			var h struct {
				Params json.RawMessage `json:"params"`
			}
			if err := c.Get(cmd.Context(), runPath(id)+"/hparams", nil, &h); err != nil {
				return err
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(h.Params, &members); err != nil {
				return fmt.Errorf("decode the hyperparameters: %w", err)
			}
			if len(members) == 0 {
				t.Say("no hyperparameters")
			}
			columns := make([]output.Column, 0, len(members))
			for _, name := range sortedKeys(members) {
				columns = append(columns, output.Column{Name: name, As: compactText})
			}
			return t.print(columns, h.Params)
		},
	}
}

func (t *tool) environment() *cobra.Command {
	return &cobra.Command{
		Use: "environment JOB|RUN", Aliases: []string{"env"}, Short: "Print the software and the code of a run", Example: "signalbox runs environment my-run --jq .packages",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(runKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.sourceOf(cmd, args[0])
			if err != nil {
				return err
			}
			columns := []output.Column{
				{Name: "python"},
				{Name: "os"},
				{Name: "cuda"},
				{Name: "driver"},
				{Name: "nccl"},
				{Name: "gpus"},
				{Name: "git", As: compactText},
				{Name: "packages", As: output.Count},
				{Name: "reported", Path: "reported_at", As: output.Time},
			}
			return t.printObject(cmd, c, columns, runPath(id)+"/environment")
		},
	}
}

// references prints what refers to a run, and what its deletion would do.
func (t *tool) references() *cobra.Command {
	k := runKind()
	return &cobra.Command{
		Use: "references RUN", Short: "List what refers to a run, before it is deleted", Example: "signalbox runs references my-run", Args: arguments(1, 1),
		ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			var found struct {
				Deletable  bool              `json:"deletable"`
				References []json.RawMessage `json:"references"`
				Hidden     int               `json:"hidden"`
			}
			if err := c.Get(cmd.Context(), k.at(id, "references"), nil, &found); err != nil {
				return err
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			columns := []output.Column{{Name: "kind"}, {Name: "name"}, {Name: "id"}, {Name: "effect"}}
			if err := t.rows(p, "references", columns, found.References); err != nil {
				return err
			}
			if found.Hidden > 0 {
				t.Say("%d more are not visible to you", found.Hidden)
			}
			if !found.Deletable {
				t.Say("the run cannot be deleted")
			}
			return nil
		},
	}
}

// export writes the metrics of a run to a file or to standard output.
func (t *tool) export() *cobra.Command {
	var format, file string
	var keys []string
	cmd := &cobra.Command{
		Use: "export JOB|RUN", Short: "Write every point of the metrics as CSV or Parquet", Args: arguments(1, 1), ValidArgsFunction: t.complete(runKind()),
		Example: "signalbox runs export my-run > metrics.csv\nsignalbox runs export my-run --format parquet --file metrics.parquet",
		RunE: func(cmd *cobra.Command, args []string) error {
			if format == "parquet" && file == "" && t.OutTerminal {
				return session.Usage("Parquet is not for a terminal; add --file NAME")
			}
			c, id, err := t.sourceOf(cmd, args[0])
			if err != nil {
				return err
			}
			query := url.Values{"format": {format}}
			if len(keys) > 0 {
				query["keys"] = keys
			}
			if file == "" {
				return c.Stream(cmd.Context(), runPath(id)+"/metrics/export", query, t.Out)
			}
			part := file + ".part"
			out, err := os.Create(part)
			if err != nil {
				return session.Usage("%s", err)
			}
			err = c.Stream(cmd.Context(), runPath(id)+"/metrics/export", query, out)
			if closed := out.Close(); err == nil {
				err = closed
			}
			if err != nil {
				_ = os.Remove(part) // an incomplete export is of no use
				return err
			}
			return os.Rename(part, file)
		},
	}
	cmd.Flags().StringVar(&format, "format", "csv", "csv or parquet")
	cmd.Flags().StringVar(&file, "file", "", "file to write instead of standard output")
	cmd.Flags().StringSliceVarP(&keys, "key", "k", nil, "only this metric; can be repeated")
	must(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"csv", "parquet"}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// lastValue formats a list of points by the value of the last one.
func lastValue(value any, now time.Time) string {
	points, ok := value.([]any)
	if !ok || len(points) == 0 {
		return ""
	}
	last, _ := points[len(points)-1].(map[string]any)
	return output.Number(last["value"], now)
}

// compactText formats a text as itself and any other value as JSON.
func compactText(value any, now time.Time) string {
	if text, ok := value.(string); ok {
		return text
	}
	return compactJSON(value, now)
}

func sortedKeys[V any](members map[string]V) []string {
	return slices.Sorted(maps.Keys(members))
}
