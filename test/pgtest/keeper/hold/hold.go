// Package hold determines whether the shared test server is in use. Each test process holds a shared lock
// on a file. The keeper stops the server only while it holds that lock exclusively.
package hold

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
	useFile  = "use.lock"
	keepFile = "keeper.lock"
)

// Use is a shared lock that keeps the server running.
type Use struct{ file *os.File }

// Share takes a shared lock. It waits while a keeper stops its server.
func Share(ctx context.Context, dir string) (*Use, error) {
	f, err := lock(ctx, filepath.Join(dir, useFile), syscall.LOCK_SH)
	if err != nil {
		return nil, err
	}
	u := &Use{file: f}
	u.mark()
	return u, nil
}

// Release releases the lock and sets the file's modification time to the current time, which is the end of
// the last use.
func (u *Use) Release() {
	u.mark()
	free(u.file)
}

// free unlocks the file explicitly. Closing the file does not unlock it while a child that is being started
// has a copy of the descriptor.
func free(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}

func (u *Use) mark() { _, _ = u.file.WriteAt([]byte{'.'}, 0) }

// Idle takes the lock exclusively if no shared lock has been held for d. The caller stops the server and
// then calls done.
func Idle(dir string, d time.Duration) (done func(), idle bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, useFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open the lock of the test server: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, false, f.Close()
	}
	info, err := f.Stat()
	if err != nil || time.Since(info.ModTime()) < d {
		free(f)
		return nil, false, err
	}
	return func() { free(f) }, true, nil
}

// Keep makes the caller the only keeper until it calls done. The lock file contains its process id.
func Keep(dir string) (done func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, keepFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the keeper's lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("another keeper is running"), f.Close())
	}
	if err := errors.Join(f.Truncate(0), write(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("write the keeper's lock: %w", err), f.Close())
	}
	return func() { free(f) }, nil
}

func write(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Kept reports whether a keeper is running. The caller must hold the start lock, because Kept takes the
// keeper's lock for a moment.
func Kept(dir string) bool {
	done, err := Keep(dir)
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
	return func() { free(f) }, nil
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
