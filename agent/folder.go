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
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// ErrInUse reports that another agent uses the data folder.
var ErrInUse = errors.New("the data folder is in use")

const (
	// The lock of a killed agent may remain for a short time: if the agent was starting a child, the child
	// holds the lock until its exec. openFolder therefore tries again up to lockTries times, with lockWait in
	// between.
	lockTries = 30
	lockWait  = 10 * time.Millisecond
)

// folder is the locked data folder. Only one agent at a time can lock it: two agents with the same folder
// would act as the same node and end each other's works.
type folder struct {
	lock *localfile.LockedFile
	once sync.Once
}

// openFolder creates the folder and locks it. If another process holds the lock, openFolder changes nothing
// in the folder and returns ErrInUse with the id of that process.
func openFolder(path string, clk clock.Clock) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	name := filepath.Join(path, "lock")
	lock, err := localfile.TryLock(name)
	for try := 0; errors.Is(err, localfile.ErrLocked); try++ {
		if try == lockTries {
			holder, _ := os.ReadFile(name)
			return nil, fmt.Errorf("%w: %s is locked by agent process %s", ErrInUse, path, strings.TrimSpace(string(holder)))
		}
		<-clk.NewTimer(lockWait).C()
		lock, err = localfile.TryLock(name)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	f := &folder{lock: lock}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the process id to the data folder's lock: %w", err), f.close())
	}
	return f, nil
}

// close releases the folder; a second call does nothing.
func (f *folder) close() (err error) {
	f.once.Do(func() {
		if err = f.lock.Close(); err != nil {
			err = fmt.Errorf("release the data folder: %w", err)
		}
	})
	return err
}
