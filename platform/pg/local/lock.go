package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockPatience is how long lockDir waits for the lock. A killed process may still hold the lock through a child that it
// was starting: the child holds the lock until its exec.
const lockPatience = 300 * time.Millisecond

// lockDir locks the folder for this process. The kernel releases the lock when the
// process dies; the server does not inherit it.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file of the Postgres folder: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		if wait(limited, 10*time.Millisecond) != nil {
			holder, _ := os.ReadFile(path)
			return nil, errors.Join(fmt.Errorf("%w: %s is locked by process %s", ErrInUse, dir, strings.TrimSpace(string(holder))), f.Close())
		}
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the lock file of the Postgres folder: %w", err), unlock(f))
	}
	return f, nil
}

// unlock releases the lock explicitly. Closing the file alone does not release the lock while a child that is being
// started still has a copy of the descriptor.
func unlock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil && !errors.Is(err, syscall.EBADF) {
		return errors.Join(fmt.Errorf("unlock the Postgres folder: %w", err), f.Close())
	}
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("unlock the Postgres folder: %w", err)
	}
	return nil
}
