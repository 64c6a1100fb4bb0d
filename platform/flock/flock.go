// Package flock owns locks that processes of one machine have on files. It promises that one process at a
// time has a file's lock, until it closes the file or dies, frozen or not: the kernel keeps it.
package flock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrTaken is a lock that another holder has.
var ErrTaken = errors.New("another process has the lock")

// File is a file whose lock this process has, open to read and to write.
type File struct{ *os.File }

// Try opens the file, which is made where there is none, and takes its lock, or answers ErrTaken at once.
func Try(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return &File{File: f}, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = ErrTaken
	default:
		err = fmt.Errorf("lock %s: %w", path, err)
	}
	return nil, errors.Join(err, f.Close())
}

// Close lets the lock go. It is released by name, because a child that was forked a moment ago may still
// hold the file.
func (f *File) Close() error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.File.Close())
}
