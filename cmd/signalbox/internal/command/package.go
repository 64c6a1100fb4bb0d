package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/packager"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/transfer"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/archive"
)

const packagesPath = "/api/submit/packages"

// codePackage is a packed folder, in a file that is deleted when it is closed.
type codePackage struct {
	file    *os.File
	size    int64
	sha256  string
	listing *packager.Listing
}

func (p *codePackage) close() {
	if p != nil {
		_ = p.file.Close()
	}
}

// listFolder prints the files of a folder: those that would be packed, those that are excluded and those that are refused.
func (t *tool) listFolder(cmd *cobra.Command, dir string) error {
	listing, err := packager.List(cmd.Context(), dir, packager.DefaultLimits())
	if err != nil {
		return unlessStopped(cmd.Context(), err)
	}
	type row struct {
		Path     string `json:"path"`
		Size     *int64 `json:"size_bytes"` // null for files that are not packed
		Mode     string `json:"mode"`
		SHA256   string `json:"sha256"`
		Excluded string `json:"excluded"`
		Refused  string `json:"refused"`
	}
	rows := make([]json.RawMessage, 0, len(listing.Files)+len(listing.Refusals))
	add := func(r row) error {
		raw, err := json.Marshal(r)
		rows = append(rows, raw)
		return err
	}
	for _, f := range listing.Files {
		size := &f.Size
		if f.Excluded != "" {
			size = nil
		}
		if err := add(row{Path: f.Path, Size: size, Mode: fmt.Sprintf("%04o", f.Mode), SHA256: f.SHA256, Excluded: f.Excluded}); err != nil {
			return err
		}
	}
	for _, r := range listing.Refusals {
		if err := add(row{Path: r.Path, Refused: r.String()}); err != nil {
			return err
		}
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	columns := []output.Column{
		{Name: "path"},
		{Name: "size", Path: "size_bytes", Right: true, As: output.Bytes},
		{Name: "mode", Wide: true},
		{Name: "excluded"},
		{Name: "refused"},
	}
	if err := p.Rows(columns, rows); err != nil {
		return err
	}
	return unlessStopped(cmd.Context(), listing.Err())
}

// packFolder packs a folder but for the files in without, and checks the package as the server does. Nothing is sent. The caller closes
// the package.
func (t *tool) packFolder(ctx context.Context, dir string, without ...string) (*codePackage, error) {
	limits := packager.DefaultLimits()
	listing, err := packager.List(ctx, dir, limits, without...)
	if err == nil {
		err = listing.Err()
	}
	if err != nil {
		return nil, unlessStopped(ctx, err)
	}
	for _, warning := range listing.Warnings {
		t.Say("%s", warning)
	}
	file, err := os.CreateTemp("", "signalbox-package-*")
	if err != nil {
		return nil, fmt.Errorf("create the package: %w", err)
	}
	p := &codePackage{file: file, listing: listing}
	if err := p.fill(ctx, listing, limits); err != nil {
		p.close()
		return nil, unlessStopped(ctx, err)
	}
	return p, nil
}

func (p *codePackage) fill(ctx context.Context, listing *packager.Listing, limits packager.Limits) error {
	if err := os.Remove(p.file.Name()); err != nil { // it stays readable until it is closed
		return fmt.Errorf("create the package: %w", err)
	}
	h := sha256.New()
	err := listing.Pack(ctx, io.MultiWriter(p.file, h))
	if err != nil {
		return err
	}
	p.sha256 = hex.EncodeToString(h.Sum(nil))
	if p.size, err = p.file.Seek(0, io.SeekCurrent); err != nil {
		return fmt.Errorf("read the package: %w", err)
	}
	_, err = archive.Inspect(io.NewSectionReader(p.file, 0, p.size), p.size, limits.Bytes)
	return err
}

// unlessStopped returns an error that names what is wrong with a folder, and the error itself if the command was stopped.
func unlessStopped(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return session.Usage("%s", err)
}

// sendPackage uploads a package, unless the project has it already, and sets it as the source of a spec.
func (t *tool) sendPackage(ctx context.Context, c *client.Client, spec map[string]any, p *codePackage) error {
	source, err := specSource(spec)
	if err != nil {
		return err
	}
	if source["package"], err = t.uploadCode(ctx, c, spec["project"], p); err != nil {
		return err
	}
	spec["source"] = source
	return nil
}

// uploadCode uploads a package, unless the project has it already, and returns its id. Without a project, the server chooses it.
func (t *tool) uploadCode(ctx context.Context, c *client.Client, project any, p *codePackage) (packageID string, err error) {
	body := map[string]any{"size_bytes": p.size, "sha256": p.sha256}
	if project != nil {
		body["project"] = project
	}
	var made struct {
		ID     string        `json:"id"`
		State  string        `json:"state"`
		Upload *uploadTarget `json:"upload"`
	}
	if err := c.Post(ctx, packagesPath, body, &made); err != nil {
		return "", err
	}
	if made.Upload != nil {
		if err := t.uploadPackage(ctx, c, p, *made.Upload); err != nil {
			return "", fmt.Errorf("upload the package: %w", err)
		}
	}
	if made.State != "accepted" {
		if err := c.Post(ctx, packagesPath+"/"+url.PathEscape(made.ID)+"/commit", map[string]any{}, nil); err != nil {
			return "", err
		}
	}
	return made.ID, nil
}

// specSource returns the source of a spec, to which a package is added.
func specSource(spec map[string]any) (map[string]any, error) {
	value, set := spec["source"]
	if !set || value == nil {
		return map[string]any{}, nil
	}
	source, ok := value.(map[string]any)
	if !ok {
		return nil, session.Usage("source of the job is not an object; write source: {command: [...]}")
	}
	if present, ok := source["package"]; ok && present != "" {
		return nil, session.Usage("the job has the package %v; remove source.package from the file, or leave out --folder", present)
	}
	return source, nil
}

func (t *tool) uploadPackage(ctx context.Context, c *client.Client, p *codePackage, u uploadTarget) error {
	progress := t.progress()
	defer progress.Wait()
	count, end := progress.File("package", p.size)
	err := t.Watcher(c).Retry(ctx, func() error {
		return c.UploadFrom(ctx, u.Method, u.URL, u.Headers, transfer.NewReader(io.NewSectionReader(p.file, 0, p.size), count), p.size)
	})
	end(err == nil)
	return err
}
