package command

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func artifactKind() kind {
	return kind{one: "artifact", many: "artifacts", columns: []output.Column{
		{Name: "id"},
		{Name: "kind"},
		{Name: "format"},
		{Name: "step", Right: true},
		{Name: "size", Path: "size_bytes", Right: true, As: output.Bytes},
		{Name: "name"},
		{Name: "attempt", Right: true, Wide: true},
		{Name: "sha256", Wide: true},
		{Name: "age", Path: "created_at", Right: true, As: output.Age},
		{Name: "removed", Path: "removed_at", Right: true, As: output.Age},
	}, note: freed}
}

// freed states how many of the listed artifacts are checkpoints that their job does not keep, and their size.
func freed(rows []json.RawMessage) string {
	count, size := 0, int64(0)
	for _, raw := range rows {
		var a struct {
			Size    int64   `json:"size_bytes"`
			Removed *string `json:"removed_at"`
		}
		if json.Unmarshal(raw, &a) == nil && a.Removed != nil {
			count, size = count+1, size+a.Size
		}
	}
	switch count {
	case 0:
		return ""
	case 1:
		return "1 checkpoint was removed, because its job does not keep it; that frees " + output.Size(size)
	}
	return fmt.Sprintf("%d checkpoints were removed, because their job does not keep them; that frees %s", count, output.Size(size))
}

func (t *tool) artifacts() *cobra.Command {
	return noun("artifacts", groupWork, "Artifacts: checkpoints, models and files of a run",
		"signalbox artifacts ls my-job\nsignalbox artifacts pull my-job --dir out", []string{"artifact"}, t.listArtifacts(), t.pullArtifacts())
}

func (t *tool) listArtifacts() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "ls JOB|RUN", Aliases: []string{"list"}, Short: "List the artifacts of a job or run", Example: "signalbox artifacts ls my-job -o wide",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(jobKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.sourceOf(cmd, args[0])
			if err != nil {
				return err
			}
			return t.printList(cmd, c, artifactKind(), runPath(id)+"/artifacts", nil, limit)
		},
	}
	addLimit(cmd, &limit)
	return cmd
}

func (t *tool) pullArtifacts() *cobra.Command {
	var dir string
	var only []string
	cmd := &cobra.Command{
		Use: "pull JOB|RUN [ARTIFACT]...", Short: "Download the artifacts of a job or run",
		Long: `Download all artifacts of a job or run, or those that are named by their id or path, into a folder.

If the command is interrupted, run it again: files that are complete are kept, and a part is continued.`,
		Example: `signalbox artifacts pull my-job --dir out
signalbox artifacts pull my-job --kind checkpoint
signalbox artifacts pull my-job art_01kab3c4d5e6f7g8h9j0kmnpqr`,
		Args: arguments(1, maxNames), ValidArgsFunction: t.complete(jobKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := t.sourceOf(cmd, args[0])
			if err != nil {
				return err
			}
			files, err := t.runFiles(cmd, c, id, args[1:], only)
			if err != nil {
				return err
			}
			if dir == "" {
				dir = id
			}
			return t.pull(cmd.Context(), dir, files)
		},
	}
	cmd.Flags().StringVarP(&dir, "dir", "d", "", "folder for the files; the id of the job or run by default")
	cmd.Flags().StringSliceVar(&only, "kind", nil, "only artifacts of this kind, such as checkpoint; can be repeated")
	return cmd
}

// maxNames bounds the arguments of a command.
const maxNames = 1000

// runFile is a row of GET /api/runs/{id}/download.
type runFile struct {
	ID     string  `json:"artifact_id"`
	Kind   string  `json:"kind"`
	Path   string  `json:"path"`
	URL    *string `json:"url"`
	Size   int64   `json:"size_bytes"`
	SHA256 *string `json:"sha256"`
	Reason *string `json:"reason"`
}

// runFiles returns the files of a run that are selected by names and kinds.
func (t *tool) runFiles(cmd *cobra.Command, c *client.Client, run string, names, kinds []string) ([]remoteFile, error) {
	var out []remoteFile
	missing := slices.Clone(names)
	hidden, removed := false, 0 // an artifact has no file here; the number of removed checkpoints
	_, _, err := c.Each(cmd.Context(), runPath(run)+"/download", nil, everything, func(raw json.RawMessage) error {
		var f runFile
		if err := json.Unmarshal(raw, &f); err != nil {
			return fmt.Errorf("decode an artifact: %w", err)
		}
		named := func(name string) bool { return name == f.ID || name == f.Path || name == path.Base(f.Path) }
		if len(names) > 0 && !slices.ContainsFunc(names, named) || len(kinds) > 0 && !slices.Contains(kinds, f.Kind) {
			return nil
		}
		missing = slices.DeleteFunc(missing, named)
		if f.URL == nil && f.Reason != nil && *f.Reason == "artifact_removed" {
			hidden, removed = true, removed+1
			return nil
		}
		if f.URL == nil {
			hidden = true
			t.Say("%s is on the host of the run and cannot be downloaded", output.Printable(f.Path))
			return nil
		}
		file := remoteFile{path: f.Path, url: *f.URL, size: f.Size, renew: runPath(run) + "/artifacts/" + url.PathEscape(f.ID) + "/download"}
		if f.SHA256 != nil {
			file.sha256 = *f.SHA256
		}
		out = append(out, file)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if removed > 0 {
		t.Say("checkpoints that were removed, because the job does not keep them: %d; signalbox artifacts ls lists them", removed)
	}
	if len(out) == 0 && len(kinds) > 0 && !hidden {
		return nil, &NotFoundError{fmt.Sprintf("the run has no artifact of the kind %s; signalbox artifacts ls lists them", strings.Join(kinds, " or "))}
	}
	if len(missing) > 0 {
		return nil, &NotFoundError{fmt.Sprintf("the run has no artifact %q; signalbox artifacts ls lists them", missing[0])}
	}
	return out, nil
}
