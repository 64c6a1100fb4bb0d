package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/transfer"
	"github.com/signalbox-dev/signalbox/internal/client"
)

// localFile is a file to upload. Its name in the version has slashes.
type localFile struct {
	name, path, sha256 string
	size               int64
}

// filesByName returns files by their names.
func filesByName(files []localFile) map[string]localFile {
	out := make(map[string]localFile, len(files))
	for _, f := range files {
		out[f.name] = f
	}
	return out
}

// manifest returns the list of files of a request.
func manifest(files []localFile) []map[string]any {
	out := make([]map[string]any, len(files))
	for i, f := range files {
		out[i] = map[string]any{"path": f.name, "size_bytes": f.size, "sha256": f.sha256}
	}
	return out
}

func (t *tool) progress() *transfer.Progress {
	return &transfer.Progress{Out: t.Err, Terminal: t.ErrTerminal, Quiet: t.Quiet}
}

// measure reads files for their sizes and digests.
func (t *tool) measure(ctx context.Context, files []localFile) error {
	progress := t.progress()
	defer progress.Wait()
	for i := range files {
		if err := files[i].measure(ctx, progress); err != nil {
			return err
		}
	}
	return nil
}

func (f *localFile) measure(ctx context.Context, progress *transfer.Progress) error {
	in, err := os.Open(f.path)
	if err != nil {
		return session.Usage("%s", err)
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	count, end := progress.Work("digest of "+f.name, info.Size())
	h := sha256.New()
	f.size, err = io.Copy(h, transfer.NewReader(transfer.Until(ctx, in), count))
	end(err == nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	f.sha256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

// uploadTarget is a signed address for a file.
type uploadTarget struct {
	Path    string            `json:"path"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// errNotKept reports a server that requests the same files again.
var errNotKept = errors.New("the server requests files that were uploaded before; its object store may have lost them")

// uploadMissing sends the files that the installation does not have. Sign returns addresses for a part of them, and none if
// there are no more.
func (t *tool) uploadMissing(ctx context.Context, c *client.Client, files []localFile, sign func() ([]uploadTarget, error)) error {
	progress := t.progress()
	defer progress.Wait()
	paths := filesByName(files)
	for range len(files) + 1 { // each round sends a file at least
		targets, err := sign()
		if err != nil || len(targets) == 0 {
			return err
		}
		if err := t.uploadFiles(ctx, c, progress, paths, targets); err != nil {
			return err
		}
	}
	return errNotKept
}

// uploadFiles sends the files of one response. The addresses are valid for some minutes only: if one that is not the first
// has expired, the rest is left to the next response.
func (t *tool) uploadFiles(ctx context.Context, c *client.Client, progress *transfer.Progress, files map[string]localFile, targets []uploadTarget) error {
	for i, u := range targets {
		err := t.uploadFile(ctx, c, progress, files[u.Path], u)
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusForbidden && i > 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("upload %s: %w", output.Printable(u.Path), err)
		}
	}
	return nil
}

func (t *tool) uploadFile(ctx context.Context, c *client.Client, progress *transfer.Progress, f localFile, u uploadTarget) error {
	count, end := progress.File(f.name, f.size)
	err := t.Watcher(c).Retry(ctx, func() error {
		file, err := os.Open(f.path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		return c.UploadFrom(ctx, u.Method, u.URL, u.Headers, transfer.NewReader(file, count), f.size)
	})
	end(err == nil)
	return err
}
