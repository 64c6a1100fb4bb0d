package command

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

func (t *tool) runs() *cobra.Command {
	k := runKind()
	return noun("runs", groupWork, "Runs: what jobs, notebooks and scripts have reported", "signalbox runs ls --tag baseline\nsignalbox runs get my-run",
		nil,
		t.list(k, "List runs, newest first", "signalbox runs ls\nsignalbox runs ls --state succeeded --tag baseline\nsignalbox runs ls --recipe demo/chat-tiny -o name",
			filter{flag: "state", param: "state", usage: "only runs in this state", values: jobStates()},
			filter{flag: "owner", param: "owner", usage: "only runs of this user; me for your own", user: true},
			filter{flag: "recipe", param: "recipe", usage: "only runs of this recipe"},
			filter{flag: "tag", param: "tag", usage: "only runs with this tag; can be repeated", many: true},
			filter{flag: "label", param: "label", usage: "only runs with this label, key=value; can be repeated", many: true},
			filter{flag: "search", param: "q", usage: "only runs whose name contains this text"},
			filter{flag: "archived", param: "archived", usage: "true, false or all", values: []string{"true", "false", "all"}},
			filter{flag: "since", param: "created_after", usage: "only runs created from this time on, such as 2026-01-31 or 7d", when: true},
			filter{flag: "until", param: "created_before", usage: "only runs created before this time", when: true},
			filter{flag: "sort", param: "sort", usage: "order: created_at, name or ended_at", values: []string{"created_at", "name", "ended_at"}}),
		t.get(k, "Show a run", "signalbox runs get my-run\nsignalbox runs get my-run --jq .recipe_lock"),
		t.updateRun(),
		t.compare(), t.hparams(), t.environment(), t.hardware(), t.benchmarks(), t.export(),
		t.lineage(k, "signalbox runs lineage my-run"), t.references(),
		t.remove(k, "Delete an ended run with all its data", "signalbox runs rm my-run"),
		t.open(k, "/runs/", "signalbox runs open my-run"),
	)
}

func (t *tool) updateRun() *cobra.Command {
	k := runKind()
	var name, notes string
	var tags []string
	var archived bool
	cmd := &cobra.Command{
		Use: "update RUN", Short: "Change the name, tags, notes or the archive of a run", Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		Example: "signalbox runs update my-run --tags baseline,good --notes 'lower lr'\nsignalbox runs update my-run --archived",
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			for flag, value := range map[string]any{"name": name, "notes": notes, "tags": tags, "archived": archived} {
				if cmd.Flags().Changed(flag) {
					body[flag] = value
				}
			}
			return t.patch(cmd, k, args[0], body)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "new name")
	f.StringVar(&notes, "notes", "", "new notes, in Markdown")
	f.StringSliceVar(&tags, "tags", nil, "all tags of the run, with commas between them")
	f.BoolVar(&archived, "archived", false, "archive the run; --archived=false takes it back")
	return cmd
}

// patch changes members of an object.
func (t *tool) patch(cmd *cobra.Command, k kind, called string, body map[string]any) error {
	if len(body) == 0 {
		return errNoChange()
	}
	c, id, err := t.object(cmd, k, called)
	if err != nil {
		return err
	}
	return t.send(cmd, c, http.MethodPatch, k.at(id), body, t.showChange(k))
}

// lineage returns a command that prints what an object was made from and what was made from it.
func (t *tool) lineage(k kind, example string) *cobra.Command {
	var direction string
	var depth int
	cmd := &cobra.Command{
		Use: "lineage " + upper(k), Short: "Show what a " + k.one + " was made from, and what was made from it", Example: example,
		Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.object(cmd, k, args[0])
			if err != nil {
				return err
			}
			return t.printLineage(cmd, c, k.at(id, "lineage"), direction, depth)
		},
	}
	cmd.Flags().StringVar(&direction, "direction", "both", "up for what it was made from, down for what was made from it, or both")
	cmd.Flags().IntVar(&depth, "depth", defaultDepth, "number of steps, 1 to 8")
	return cmd
}

const defaultDepth = 3

func lineageColumns() []output.Column {
	return []output.Column{{Name: "from"}, {Name: "relation"}, {Name: "to"}, {Name: "detail"}}
}
