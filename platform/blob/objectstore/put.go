package objectstore

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Put implements blob.Store.
func (s *FileStore) Put(ctx context.Context, key string, r io.Reader, size int64, sha256 string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if err := blob.CheckContent(size, sha256, s.config.Limit); err != nil {
		return err
	}
	verified := blob.NewVerifier(reader{ctx, r}, size, sha256)
	if info, err := s.Stat(ctx, key); err == nil {
		if info.SHA256 != sha256 {
			return blob.Differs(key)
		}
		_, err := io.Copy(io.Discard, verified)
		return err
	}
	folder := path.Join(aside, random())
	err := s.write(folder, sha256, verified)
	if err == nil {
		err = s.place(ctx, folder, key, sha256)
	}
	if err != nil {
		return errors.Join(err, s.failure("remove the staged", s.root.RemoveAll(folder)))
	}
	return nil
}

// write creates the staging folder with its only file and syncs both to disk.
func (s *FileStore) write(folder, name string, r *blob.Verifier) error {
	if err := s.root.Mkdir(folder, 0o700); err != nil {
		return s.failure("write", err)
	}
	f, err := s.root.OpenFile(path.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s.failure("write", err)
	}
	_, copied := io.Copy(f, r)
	if copied != nil && isOurs(copied, r) {
		copied = s.failure("write", copied)
	}
	return errors.Join(copied, s.failure("sync", f.Sync()), s.failure("close", f.Close()), s.failure("sync", s.sync(folder)))
}

// isOurs reports whether a copy failed because of the store, for example because the disk is full, and not because of
// the input.
func isOurs(err error, r *blob.Verifier) bool {
	var known *fault.Error
	return r.Broken() == nil && !errors.As(err, &known)
}

// place renames the staging folder to its final path. It retries, because a concurrent Delete may remove an empty
// parent folder.
func (s *FileStore) place(ctx context.Context, folder, key, sha256 string) error {
	var err error
	for range tries {
		parent := path.Dir(key)
		// If Delete removes a parent while MkdirAll creates it, MkdirAll may fail with either of these errors.
		if err = s.root.MkdirAll(parent, 0o700); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return s.failure("place", err)
		}
		if err = s.root.Rename(folder, key+mark); err == nil {
			return s.failure("sync", s.syncUp(parent))
		}
		info, stat := s.Stat(ctx, key)
		if stat == nil && info.SHA256 == sha256 {
			return s.failure("remove the staged", s.root.RemoveAll(folder))
		}
		if stat == nil {
			return blob.Differs(key)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return s.failure("place", err)
}

// reader returns the error of ctx once ctx is done.
type reader struct {
	ctx  context.Context //nolint:containedctx // lives for one call of Put
	from io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
