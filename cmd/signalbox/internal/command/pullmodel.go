package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/transfer"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/archive"
)

func (t *tool) pullModel() *cobra.Command {
	var packed bool
	cmd := t.pullVersion(modelKind(), "MODEL[@VERSION|@ALIAS]", "signalbox models pull my-model@champion --dir model\nsignalbox models pull my-model --packed",
		t.modelVersionPath, func(cmd *cobra.Command, c *client.Client, path, dir string) error {
			return t.pullModelFiles(cmd, c, path, dir, packed)
		})
	cmd.Long += `

The folder of a run is stored as one tar file. It is unpacked after its digest was verified, and removed; nothing else in the folder is
changed. The file ` + transfer.Listing + ` keeps the digests of the unpacked files, by which the next run of the command finds that they are complete.
With --packed, the tar file is kept as it is.`
	cmd.Flags().BoolVar(&packed, "packed", false, "keep the folder of a run as a tar file")
	return cmd
}

// pullModelFiles downloads the files of a version. The tar file of a folder is unpacked unless it is to be kept.
func (t *tool) pullModelFiles(cmd *cobra.Command, c *client.Client, at, dir string, keepPacked bool) error {
	files, err := t.signedFiles(cmd, c, at+"/download")
	if err != nil {
		return err
	}
	if keepPacked || len(files) != 1 || path.Ext(files[0].path) != ".tar" {
		return t.pull(cmd.Context(), dir, files)
	}
	list, err := c.List(cmd.Context(), at+"/files", nil, 1)
	if err != nil {
		return err
	}
	for _, row := range list.Rows {
		var f struct {
			Packed bool `json:"packed"`
		}
		if err := json.Unmarshal(row, &f); err != nil {
			return fmt.Errorf("decode a file: %w", err)
		}
		if f.Packed {
			return t.pullFolder(cmd.Context(), c, dir, files[0])
		}
	}
	return t.pull(cmd.Context(), dir, files)
}

// pullFolder downloads a tar file and unpacks it into a folder, unless the folder has its files already.
func (t *tool) pullFolder(ctx context.Context, c *client.Client, dir string, packed remoteFile) error {
	root, err := transfer.Root(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if files, ok := transfer.Unpacked(root, packed.sha256); ok {
		return t.pulledFolder(dir, files, len(files))
	}
	stage, err := transfer.NewStage(root, packed.sha256)
	if err != nil {
		return err
	}
	defer stage.Close()
	progress := t.progress()
	_, err = t.pullFile(ctx, c, stage.Root, progress, packed)
	var files []transfer.File
	if err == nil {
		count, end := progress.Work("unpack "+packed.path, packed.size)
		files, err = stage.Unpack(ctx, transfer.File{Path: packed.path, Size: packed.size, SHA256: packed.sha256}, count)
		end(err == nil)
	}
	progress.Wait()
	if err != nil {
		switch {
		case ctx.Err() != nil:
			t.Say("run the same command again to continue")
		case errors.Is(err, archive.ErrUnpack):
			err = fmt.Errorf("%w; with --packed, the tar file is kept as it is", err)
		}
		return err
	}
	return t.pulledFolder(dir, files, 0)
}

// pulledFolder prints the files of an unpacked folder.
func (t *tool) pulledFolder(dir string, files []transfer.File, before int) error {
	var bytes int64
	for _, f := range files {
		if err := t.printFile(dir, remoteFile{path: f.Path, size: f.Size, sha256: f.SHA256}); err != nil {
			return err
		}
		bytes += f.Size
	}
	t.sayPulled(dir, len(files), bytes, before)
	return nil
}
