package objcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Copy puts the object into the folder, unpacked if the reference requests it. The work may change the
// files without affecting the cache.
func (s *Store) Copy(ctx context.Context, key executor.Key, ref executor.ObjectRef, dir string) error {
	return s.copy(ctx, key, ref, dir, private())
}

// CopyReadable is like Copy, but every user who can reach the folder may read the files. Copy followed by
// boundary.MakeReadable would have the same effect, but to change the modes of many files takes as long as to write
// them.
func (s *Store) CopyReadable(ctx context.Context, key executor.Key, ref executor.ObjectRef, dir string) error {
	return s.copy(ctx, key, ref, dir, readable())
}

func (s *Store) copy(ctx context.Context, key executor.Key, ref executor.ObjectRef, dir string, m modes) error {
	return s.put(ctx, key, ref, func(path string) error {
		if ref.Unpack {
			return unpackFile(path, filepath.Join(dir, filepath.Dir(ref.Path)), ref, m)
		}
		return copyFile(path, filepath.Join(dir, name(ref)), ref, m)
	})
}

// put fetches the object and calls the function place with the path of the cached file. If that file is damaged, put
// downloads the object again, once.
func (s *Store) put(ctx context.Context, key executor.Key, ref executor.ObjectRef, place func(path string) error) error {
	for again := false; ; again = true {
		path, err := s.Fetch(ctx, key, ref)
		if err != nil {
			return err
		}
		if err := place(path); !errors.Is(err, ErrMismatch) || again {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove a damaged object: %w", err)
		}
	}
}

// Link puts the object into the folder, if possible without copying its bytes. An archive is unpacked as by Copy. The
// files must not be changed. If a work changes a file anyway, later calls of Link are not affected, because the bytes
// are verified before each link.
func (s *Store) Link(ctx context.Context, key executor.Key, ref executor.ObjectRef, dir string) error {
	if ref.Unpack {
		return s.Copy(ctx, key, ref, dir)
	}
	return s.put(ctx, key, ref, func(path string) error { return linkFile(path, filepath.Join(dir, name(ref)), ref) })
}

func linkFile(from, to string, ref executor.ObjectRef) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open an object: %w", err)
	}
	defer func() { _ = in.Close() }()
	if err := copyVerified(io.Discard, in, ref); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("create the folder of an object: %w", err)
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the previous file of an object: %w", err)
	}
	if os.Link(from, to) == nil {
		return nil
	}
	// A link is impossible if the folder is on another file system.
	return copyFile(from, to, ref, private())
}

func name(ref executor.ObjectRef) string {
	if ref.Path == "" {
		return ref.SHA256
	}
	return ref.Path
}

func copyFile(from, to string, ref executor.ObjectRef, m modes) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open an object: %w", err)
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), m.folder); err != nil {
		return fmt.Errorf("create the folder of an object: %w", err)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, m.file)
	if err != nil {
		return fmt.Errorf("create the copy of an object: %w", err)
	}
	err = errors.Join(setMode(out, m.file), copyVerified(out, in, ref))
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
