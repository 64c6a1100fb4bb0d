package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/internal/client"
)

func datasetKind() kind {
	return kind{
		one: "dataset", many: "datasets", path: "/api/datasets", prefix: "ds_", name: "name", search: "q", inProject: true,
		columns: []output.Column{
			{Name: "id"},
			{Name: "name"},
			{Name: "project"},
			{Name: "owner"},
			{Name: "format"},
			{Name: "latest", Path: "latest_version"},
			{Name: "protected", Wide: true},
			{Name: "age", Path: "created_at", Right: true, As: output.Age},
		},
		details: []output.Column{{Name: "description"}, {Name: "visibility"}, {Name: "created", Path: "created_at", As: output.Time}},
	}
}

func datasetVersionKind() kind {
	return kind{one: "version", many: "versions", columns: []output.Column{
		{Name: "version"},
		{Name: "state"},
		{Name: "files", Right: true},
		{Name: "size", Path: "bytes", Right: true, As: output.Bytes},
		{Name: "ref"},
		{Name: "digest", As: output.Short, Wide: true},
		{Name: "age", Path: "created_at", Right: true, As: output.Age},
	}}
}

func (t *tool) datasets() *cobra.Command {
	k := datasetKind()
	return noun("datasets", groupModels, "Datasets and their versions",
		"signalbox datasets ls\nsignalbox datasets push sums ./data --version v2", []string{"dataset"},
		t.list(k, "List datasets", "signalbox datasets ls --search sums",
			filter{flag: "search", param: "q", usage: "only datasets whose name contains this text"}),
		t.get(k, "Show a dataset", "signalbox datasets get sums"),
		t.part(k, "versions", "versions", datasetVersionKind(), "List the versions of a dataset", "signalbox datasets versions sums"),
		t.update(k, "Change the description of a dataset", "signalbox datasets update sums --description 'all sums to 100'",
			field{flag: "description", usage: "what it is for"}),
		t.pushDataset(), t.pullDataset(), t.previewDataset(), t.removeVersion(),
		t.open(k, "/datasets/", "signalbox datasets open sums"),
	)
}

// version returns the path of a version of a dataset, which the user calls name@version, or name for its newest one.
func (t *tool) datasetVersion(cmd *cobra.Command, called string) (*client.Client, string, error) {
	k := datasetKind()
	name, version, _ := strings.Cut(called, "@")
	c, id, err := t.object(cmd, k, name)
	if err != nil {
		return nil, "", err
	}
	path := k.at(id)
	if version == "" {
		var d struct {
			Latest *string `json:"latest_version"`
		}
		if err := c.Get(cmd.Context(), path, nil, &d); err != nil {
			return nil, "", err
		}
		if d.Latest == nil {
			return nil, "", &NotFoundError{fmt.Sprintf("the dataset %s has no committed version", called)}
		}
		version = *d.Latest
	}
	return c, path + "/versions/" + url.PathEscape(version), nil
}

func (t *tool) pullDataset() *cobra.Command {
	return t.pullVersion(datasetKind(), "DATASET[@VERSION]", "signalbox datasets pull sums --dir data\nsignalbox datasets pull sums@v1", t.datasetVersion, t.pullFiles)
}

// signedFiles returns the files of a list of signed addresses.
func (t *tool) signedFiles(cmd *cobra.Command, c *client.Client, path string) ([]remoteFile, error) {
	var out []remoteFile
	_, _, err := c.Each(cmd.Context(), path, nil, everything, func(raw json.RawMessage) error {
		var f struct {
			Path   string `json:"path"`
			URL    string `json:"url"`
			Size   int64  `json:"size_bytes"`
			SHA256 string `json:"sha256"`
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			return fmt.Errorf("decode a download: %w", err)
		}
		out = append(out, remoteFile{path: f.Path, url: f.URL, size: f.Size, sha256: f.SHA256, renew: path})
		return nil
	})
	return out, err
}

func (t *tool) previewDataset() *cobra.Command {
	const most = 100
	var limit int
	cmd := &cobra.Command{
		Use: "preview DATASET[@VERSION]", Short: "Print the first records of a dataset version", Example: "signalbox datasets preview sums@v1 --limit 5",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(datasetKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, path, err := t.datasetVersion(cmd, args[0])
			if err != nil {
				return err
			}
			var preview struct {
				Rows []json.RawMessage `json:"rows"`
			}
			if err := c.Get(cmd.Context(), path+"/preview", url.Values{"limit": {strconv.Itoa(limit)}}, &preview); err != nil {
				return err
			}
			p, err := t.Printer()
			if err != nil {
				return err
			}
			columns := []output.Column{{Name: "line", Right: true}, {Name: "value", As: compactJSON}, {Name: "error"}}
			return t.rows(p, "records", columns, preview.Rows)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", defaultPreview, fmt.Sprintf("number of records, at most %d", most))
	return cmd
}

const defaultPreview = 20

func (t *tool) removeVersion() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm-version DATASET@VERSION", Short: "Delete a version of a dataset that is not committed", Example: "signalbox datasets rm-version sums@v2 -y",
		Args: arguments(1, 1), ValidArgsFunction: t.complete(datasetKind()),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.Contains(args[0], "@") {
				return usageVersion(args[0])
			}
			c, path, err := t.datasetVersion(cmd, args[0])
			if err != nil {
				return err
			}
			if err := t.Confirm(cmd.Context(), yes, "Delete %s?", args[0]); err != nil {
				return err
			}
			if err := c.Do(cmd.Context(), http.MethodDelete, path, nil, nil); err != nil {
				return err
			}
			t.Say("deleted %s", args[0])
			return nil
		},
	}
	addYes(cmd, &yes)
	return cmd
}
