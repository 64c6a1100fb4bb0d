package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/transfer"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// remoteFile is a file that can be downloaded.
type remoteFile struct {
	path, url, sha256 string
	size              int64
	// renew is the route that signs the address again, because it is valid for 15 minutes only.
	renew string
}

// pull downloads files into a folder, one after the other. Complete files are kept, and parts are continued.
func (t *tool) pull(ctx context.Context, dir string, files []remoteFile) error {
	if len(files) == 0 {
		t.Say("no files")
		return nil
	}
	c, err := t.Client()
	if err != nil {
		return err
	}
	root, err := transfer.Root(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	progress := t.progress()
	var bytes int64
	kept := 0
	for _, f := range files {
		complete, err := t.pullFile(ctx, c, root, progress, f)
		if err != nil {
			progress.Wait()
			if ctx.Err() != nil {
				t.Say("run the same command again to continue")
			}
			return err
		}
		if err := t.printFile(dir, f); err != nil {
			return err
		}
		bytes += f.size
		if complete {
			kept++
		}
	}
	progress.Wait()
	t.sayPulled(dir, len(files), bytes, kept)
	return nil
}

// sayPulled states what a folder has after a download, and how many of the files it had before.
func (t *tool) sayPulled(dir string, files int, bytes int64, before int) {
	already := ""
	if before > 0 {
		already = fmt.Sprintf(", %d of them before", before)
	}
	t.Say("%s, %s, in %s, with the right digests%s", counted(files, "file"), output.Size(bytes), dir, already)
}

// counted returns a number and a noun, in the plural if it needs one.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// printFile prints a downloaded file: its path, or with another format an object. On a terminal, the bars show it.
func (t *tool) printFile(dir string, f remoteFile) error {
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if p.ForPeople() && t.OutTerminal {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"path": filepath.Join(dir, filepath.FromSlash(f.path)), "size_bytes": f.size, "sha256": f.sha256})
	if err != nil {
		return fmt.Errorf("print a file: %w", err)
	}
	return p.Row([]output.Column{{Name: "path"}}, raw)
}

// pullFile downloads a file, unless it is complete already.
func (t *tool) pullFile(ctx context.Context, c *client.Client, root *os.Root, progress *transfer.Progress, f remoteFile) (complete bool, err error) {
	file := transfer.File{Path: f.path, URL: f.url, Size: f.size, SHA256: f.sha256}
	if f.sha256 != "" && transfer.Exists(root, file) {
		return true, nil
	}
	count, end := progress.File(f.path, f.size)
	download := func() error { return transfer.Download(ctx, t.Transport, root, file, count) }
	err = t.Watcher(c).Retry(ctx, func() error {
		err := download()
		if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != http.StatusForbidden {
			return err
		}
		signed, err := signAgain(ctx, c, f)
		if err != nil {
			return err
		}
		file.URL = signed
		return download()
	})
	end(err == nil)
	return false, err
}

// signAgain returns a new address of a file.
func signAgain(ctx context.Context, c *client.Client, f remoteFile) (string, error) {
	list, err := c.List(ctx, f.renew, nil, everything)
	if err != nil {
		return "", err
	}
	for _, row := range list.Rows {
		var signed struct {
			Path   string `json:"path"`
			SHA256 string `json:"sha256"`
			URL    string `json:"url"`
		}
		if err := json.Unmarshal(row, &signed); err != nil {
			return "", fmt.Errorf("decode a download: %w", err)
		}
		if signed.Path == f.path || f.sha256 != "" && signed.SHA256 == f.sha256 {
			return signed.URL, nil
		}
	}
	return "", &NotFoundError{"the server no longer has " + f.path}
}

// pullFiles downloads the files of a version into a folder.
func (t *tool) pullFiles(cmd *cobra.Command, c *client.Client, path, dir string) error {
	files, err := t.signedFiles(cmd, c, path+"/download")
	if err != nil {
		return err
	}
	return t.pull(cmd.Context(), dir, files)
}

// pullVersion returns the command pull of a kind with versions. Find returns a client and the path of a version, and pull downloads
// its files into a folder.
func (t *tool) pullVersion(
	k kind, called, example string, find func(cmd *cobra.Command, called string) (*client.Client, string, error),
	pull func(cmd *cobra.Command, c *client.Client, path, dir string) error,
) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "pull " + called, Short: "Download the files of a version of a " + k.one, Args: arguments(1, 1), ValidArgsFunction: t.complete(k),
		Long:    "Download the files of a version of a " + k.one + ", or of its newest one, into a folder. Run the command again to continue it.",
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, path, err := find(cmd, args[0])
			if err != nil {
				return err
			}
			folder := dir
			if folder == "" {
				folder = strings.ReplaceAll(args[0], "/", "-")
			}
			return pull(cmd, c, path, folder)
		},
	}
	cmd.Flags().StringVarP(&dir, "dir", "d", "", "folder for the files; the name of the "+k.one+" by default")
	return cmd
}
