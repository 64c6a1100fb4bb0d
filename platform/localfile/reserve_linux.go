package localfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Reserve is a file whose only purpose is to occupy disk space. When the disk is full, Release frees the space. The
// empty file remains, so that a later process knows that the disk was full.
type Reserve struct {
	Path  string
	Bytes int64
}

// Available returns how many bytes an ordinary user can still write to the disk of a folder.
func Available(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// State reports whether the file exists, and whether its disk space is allocated.
func (r Reserve) State() (exists, held bool, err error) {
	var st unix.Stat_t
	err = unix.Stat(r.Path, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("stat the reserve: %w", err)
	}
	const block = 512 // the unit of Blocks
	return true, st.Blocks*block >= r.Bytes, nil
}

// Take creates the file and allocates its space. If the disk has too little space, Take returns an error and leaves the
// file empty.
func (r Reserve) Take() error {
	f, err := os.OpenFile(r.Path, os.O_CREATE|os.O_WRONLY, PrivateMode)
	if err != nil {
		return fmt.Errorf("create the reserve: %w", err)
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, r.Bytes)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("allocate the reserve: %w", err), r.Release())
	}
	return SyncDir(filepath.Dir(r.Path))
}

// Release frees the space of the file. It works even on a full disk.
func (r Reserve) Release() error {
	if err := os.Truncate(r.Path, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release the reserve: %w", err)
	}
	return nil
}
