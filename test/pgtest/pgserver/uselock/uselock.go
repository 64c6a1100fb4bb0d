// Package uselock determines whether the shared test server is in use. Each test process holds a shared lock on a
// file. The process pgserver owns the server and stops it only while pgserver holds that lock exclusively.
package uselock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// URLFile is the name of the file that contains the admin URL while the server is running.
const URLFile = "url"

const (
	useFile   = "use.lock"
	ownerFile = "owner.lock"
)

// Lock is a shared lock. The server is not stopped while a process has one.
type Lock struct{ file *os.File }

// Shared takes a shared lock. If the owner of the server is stopping the server, Shared waits.
func Shared(ctx context.Context, dir string) (*Lock, error) {
	f, err := lock(ctx, filepath.Join(dir, useFile), syscall.LOCK_SH)
	if err != nil {
		return nil, err
	}
	l := &Lock{file: f}
	l.touch()
	return l, nil
}

// Release releases the lock and sets the file's modification time to the current time, so that it shows when the last
// use ended.
func (l *Lock) Release() {
	l.touch()
	unlockFile(l.file)
}

// unlockFile unlocks the file explicitly. Closing the file does not unlock it while a child that is being started
// has a copy of the descriptor.
func unlockFile(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}

func (l *Lock) touch() { _, _ = l.file.WriteAt([]byte{'.'}, 0) }

// TryExclusive takes the lock exclusively if no process has had a shared lock for d. If ok is true, the caller stops
// the server and then calls the function done.
func TryExclusive(dir string, d time.Duration) (done func(), ok bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, useFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open the lock of the test server: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, false, f.Close()
	}
	info, err := f.Stat()
	if err != nil || time.Since(info.ModTime()) < d {
		unlockFile(f)
		return nil, false, err
	}
	return func() { unlockFile(f) }, true, nil
}

// Own makes the caller the owner of the server until the caller calls the function done. The lock file contains the
// caller's process id.
func Own(dir string) (done func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the owner's lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("another process owns the server"), f.Close())
	}
	if err := errors.Join(f.Truncate(0), write(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("write the owner's lock: %w", err), f.Close())
	}
	return func() { unlockFile(f) }, nil
}

func write(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Owned reports whether a process owns the server. The caller must hold the start lock, because Owned takes
// the owner's lock for a moment.
func Owned(dir string) bool {
	done, err := Own(dir)
	if err == nil {
		done()
	}
	return err != nil
}

// Exclusive takes a lock that only one process at a time can hold.
func Exclusive(ctx context.Context, path string) (unlock func(), err error) {
	f, err := lock(ctx, path, syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { unlockFile(f) }, nil
}

func lock(ctx context.Context, path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock %s: %w", path, err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		if err := Pause(ctx, 10*time.Millisecond); err != nil {
			return nil, errors.Join(fmt.Errorf("wait for the lock %s: %w", path, err), f.Close())
		}
	}
}

// Pause waits for d or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
