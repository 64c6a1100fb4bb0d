package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/flock"
)

// ErrInUse tells that another agent works over the data folder.
var ErrInUse = errors.New("the data folder is in use")

const (
	// lockTries, lockWait apart: a child that a killed agent was starting shares its
	// lock until the child's exec.
	lockTries = 30
	lockWait  = 10 * time.Millisecond
)

// folder is the data folder, held by one agent at a time: two would end each
// other's works, for each takes the other's node for its own.
type folder struct {
	lock *flock.File
	once sync.Once
}

// openFolder makes the folder and takes it, or names the process that has it.
// Nothing else in it is touched.
func openFolder(path string, clk clock.Clock) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	name := filepath.Join(path, "lock")
	lock, err := flock.Try(name)
	for try := 0; errors.Is(err, flock.ErrTaken); try++ {
		if try == lockTries {
			holder, _ := os.ReadFile(name)
			return nil, fmt.Errorf("%w: %s is held by the agent of process %s", ErrInUse, path, strings.TrimSpace(string(holder)))
		}
		<-clk.NewTimer(lockWait).C()
		lock, err = flock.Try(name)
	}
	if err != nil {
		return nil, fmt.Errorf("take the data folder: %w", err)
	}
	f := &folder{lock: lock}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the data folder's lock: %w", err), f.close())
	}
	return f, nil
}

// close lets the folder go; a second call does nothing.
func (f *folder) close() (err error) {
	f.once.Do(func() {
		if err = f.lock.Close(); err != nil {
			err = fmt.Errorf("let the data folder go: %w", err)
		}
	})
	return err
}
