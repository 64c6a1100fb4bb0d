package command

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// maxPushed bounds the files of one push, because the manifest is one request.
const maxPushed = 20_000

type pushOptions struct{ version, format, description string }

func (t *tool) pushDataset() *cobra.Command {
	var o pushOptions
	cmd := &cobra.Command{
		Use: "push DATASET FILE|FOLDER...", Short: "Upload files as a new version of a dataset",
		Long: `Upload files, or the files of folders, as a version of a dataset, and commit it. The dataset is created if it is missing.

Files that the installation already has are not sent again, so a push that was interrupted continues when it is run again. Without --version, the
version is named by the time.`,
		Example: "signalbox datasets push sums sums.jsonl --version v1 --format jsonl\nsignalbox datasets push docs ./corpus",
		Args:    arguments(2, maxNames),
		RunE:    func(cmd *cobra.Command, args []string) error { return t.runPush(cmd, args[0], args[1:], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.version, "version", "", "name of the version, such as v2")
	f.StringVar(&o.format, "format", "", "format of a new dataset: jsonl, parquet, webdataset or files")
	f.StringVar(&o.description, "description", "", "description of a new dataset")
	return cmd
}

func (t *tool) runPush(cmd *cobra.Command, dataset string, paths []string, o pushOptions) error {
	ctx := cmd.Context()
	files, err := findFiles(paths)
	if err != nil {
		return err
	}
	if err := t.measure(ctx, files); err != nil {
		return err
	}
	c, err := t.Client()
	if err != nil {
		return err
	}
	id, err := t.id(ctx, c, datasetKind(), dataset)
	if as[*NotFoundError](err) {
		more := map[string]any{}
		for member, value := range map[string]string{"format": o.format, "description": o.description} {
			if value != "" {
				more[member] = value
			}
		}
		id, err = t.createNamed(cmd, c, datasetKind(), dataset, more)
	}
	if err != nil {
		return err
	}
	version := o.version
	if version == "" {
		version = t.Clock.Now().Format("20060102-150405")
	}
	path := datasetKind().at(id, "versions")
	if err := t.upload(ctx, c, path, version, files); err != nil {
		if ctx.Err() != nil || client.Retryable(err) {
			t.Say("to continue, run it again with --version %s", version)
		}
		return err
	}
	var raw json.RawMessage
	if err := c.Post(ctx, path+"/"+url.PathEscape(version)+"/commit", nil, &raw); err != nil {
		return err
	}
	return t.print(datasetVersionKind().columns, raw)
}

// findFiles returns the files that paths name, or that are below them. Names of files in a folder begin below it.
func findFiles(paths []string) ([]localFile, error) {
	var out []localFile
	seen := map[string]string{}
	add := func(name, path string) error {
		if other, taken := seen[name]; taken {
			return session.Usage("%s and %s would both be %s in the dataset", other, path, name)
		}
		seen[name] = path
		if len(out) == maxPushed {
			return session.Usage("more than %d files; pack them, for example as tar files", maxPushed)
		}
		out = append(out, localFile{name: name, path: path})
		return nil
	}
	for _, root := range paths {
		info, err := os.Stat(root)
		if err != nil {
			return nil, session.Usage("%s", err)
		}
		if !info.IsDir() {
			if err := add(filepath.Base(root), root); err != nil {
				return nil, err
			}
			continue
		}
		err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if !entry.Type().IsRegular() {
				return session.Usage("%s is not a regular file; links and devices are not uploaded", path)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return add(filepath.ToSlash(name), path)
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, session.Usage("there are no files in %s", strings.Join(paths, ", "))
	}
	return out, nil
}

// upload sends the files of a version that the installation does not have. The server signs a part of them at a time.
func (t *tool) upload(ctx context.Context, c *client.Client, path, version string, files []localFile) error {
	list := manifest(files)
	return t.uploadMissing(ctx, c, files, func() ([]uploadTarget, error) {
		var made struct {
			Uploads []uploadTarget `json:"uploads"`
		}
		err := c.Post(ctx, path, map[string]any{"version": version, "files": list}, &made)
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusConflict && t.unchanged(ctx, c, path, version, files) {
			return nil, nil
		}
		return made.Uploads, err
	})
}

// unchanged reports whether a committed version has exactly the given files.
func (t *tool) unchanged(ctx context.Context, c *client.Client, path, version string, files []localFile) bool {
	list, err := c.List(ctx, path+"/"+url.PathEscape(version)+"/files", nil, maxPushed)
	if err != nil || len(list.Rows) != len(files) || list.More {
		return false
	}
	paths := filesByName(files)
	for _, row := range list.Rows {
		var f struct{ Path, SHA256 string }
		if json.Unmarshal(row, &f) != nil || paths[f.Path].sha256 != f.SHA256 {
			return false
		}
	}
	t.Say("the version %s already has exactly these files", version)
	return true
}

// compactJSON formats any value as JSON.
func compactJSON(value any, _ time.Time) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(raw)
}

func usageVersion(called string) error {
	return session.Usage("%q names no version; write DATASET@VERSION", called)
}
