// Package localfile owns file locks between processes of one machine. At most one process holds the lock of a file.
// The kernel keeps the lock until that process closes the file or dies; a stopped process keeps it too.
package localfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrTaken is the error of Try if the file is already locked.
var ErrLocked = errors.New("another process has the lock")

// File is a file that this process has locked, open for reading and writing.
type LockedFile struct{ *os.File }

// Try opens the file, creating it if necessary, and locks it. It does not wait: if the file is already locked,
// it returns ErrTaken.
func TryLock(path string) (*LockedFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return &LockedFile{File: f}, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = ErrLocked
	default:
		err = fmt.Errorf("lock %s: %w", path, err)
	}
	return nil, errors.Join(err, f.Close())
}

// Close releases the lock and closes the file. Closing alone would not release the lock: a child process that
// was just forked may still have the file open.
func (f *LockedFile) Close() error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.File.Close())
}
