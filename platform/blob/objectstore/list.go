package objectstore

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// walker collects objects ordered by the bytes of their keys.
type walker struct {
	store         *FileStore
	prefix, after string
	limit         int
	found         []blob.Info
}

// List implements blob.Store.
func (s *FileStore) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := blob.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	w := walker{store: s, prefix: prefix, after: after, limit: limit}
	return w.found, s.failure("list", w.walk(ctx, ""))
}

// walk visits a folder, which is "" or ends in a slash. Objects sort by their key and
// folders by their name with the slash, so "a-b" comes before "a/b".
func (w *walker) walk(ctx context.Context, folder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := fs.ReadDir(w.store.root.FS(), path.Clean(folder+"."))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), mark); ok {
			names = append(names, name)
		} else if e.IsDir() && e.Name()[0] != '.' {
			names = append(names, e.Name()+"/")
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if len(w.found) >= w.limit {
			return nil
		}
		if err := w.visit(ctx, folder+name); err != nil {
			return err
		}
	}
	return err
}

func (w *walker) visit(ctx context.Context, name string) error {
	if strings.HasSuffix(name, "/") {
		within := strings.HasPrefix(name, w.prefix) || strings.HasPrefix(w.prefix, name)
		if within && (name > w.after || strings.HasPrefix(w.after, name)) {
			return w.walk(ctx, name)
		}
		return nil
	}
	if !strings.HasPrefix(name, w.prefix) || name <= w.after {
		return nil
	}
	info, err := w.store.stat(name)
	if fault.HasCode(err, blob.CodeAbsent) {
		return nil
	}
	info.SHA256 = ""
	if err == nil {
		w.found = append(w.found, info)
	}
	return err
}
