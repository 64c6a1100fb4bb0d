// Package localfile owns what processes on one machine share through files: locks (lock.go), folders that one process
// uses at a time (folder.go), durable writes of small files (atomic.go), and disk space that is held back (reserve.go).
//
// It promises that at most one process holds the lock of a file. The kernel releases the lock only when that process
// closes the file or exits, so a suspended process still holds it. A process that finds a folder locked changes nothing
// and receives the process ID and address of the holder. Readers see the old or the new content of a written file,
// never a part of it, even after a power failure.
package localfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// ErrLocked is the error of TryLock if the file is already locked.
var ErrLocked = errors.New("another process has the lock")

// LockedFile is a file that this process has locked, open for reading and writing.
type LockedFile struct{ *os.File }

// TryLock opens the file, creating it if necessary, and locks it. It does not wait: if the file is already locked, it
// returns ErrLocked.
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

// A process that was killed while it started a child leaves its locks to that child until the child executes its program.
const (
	childTime  = 5 * time.Second
	childEvery = 10 * time.Millisecond
)

// lockAfterChild locks the file as TryLock does. If the file is locked and its holder was killed, lockAfterChild waits
// for at most childTime.
func lockAfterChild(path string, killed func() bool) (*LockedFile, error) {
	return lockWhile(path, childTime, killed)
}

// LockWithin locks the file as TryLock does. If the file is locked, it waits for at most the given time.
func LockWithin(path string, most time.Duration) (*LockedFile, error) {
	return lockWhile(path, most, func() bool { return true })
}

func lockWhile(path string, most time.Duration, waits func() bool) (*LockedFile, error) {
	clk := clock.Real() // The kernel, not a test, determines how long another process has the lock.
	f, err := TryLock(path)
	for began := clk.Now(); errors.Is(err, ErrLocked) && waits() && clk.Now().Sub(began) < most; f, err = TryLock(path) {
		_ = clock.Sleep(context.Background(), clk, childEvery)
	}
	return f, err
}
