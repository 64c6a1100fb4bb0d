package shim

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// filesInterval is the time between two counts of the open files. In this time, a work can open only a small part of
// the files that the kernel's table can hold.
const filesInterval = 250 * time.Millisecond

// watchFiles stops the command when its processes together have more files open than the limit. The kernel itself
// limits only the files of each single process. The returned function ends the watch.
func (o *owner) watchFiles() (end func()) {
	bound := o.start.Limits.Files
	if bound == 0 {
		return func() {}
	}
	return watch(func(ctx context.Context) {
		for clock.Sleep(ctx, o.clock, filesInterval) == nil {
			if n := filesBelow(os.Getpid(), bound); n > bound {
				o.requestStop(leave{cause: CauseFiles, reason: fmt.Sprintf(
					"the processes had at least %d files open, but together they may have at most %d; close files, or request a larger SERVICE_AGENT_WORK_FILES", n, bound)})
			}
		}
	})
}

// watch runs fn until the returned function is called, which waits for the end of fn.
func watch(fn func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { fn(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// filesBelow returns how many files the descendants of the process have open. If the whole machine has fewer open files
// than the given bound, filesBelow returns 0 without examining the processes. It stops counting above the bound, so that
// a command cannot slow it down with more files. It reads mappings last, because that takes longest.
func filesBelow(pid int, bound int64) (files int64) {
	table, err := boundary.OpenFiles()
	if err != nil || table.Open < bound {
		return 0
	}
	all := Descendants(pid)
	for _, one := range all {
		if files += boundary.DescriptorsOf(one); files > bound {
			return files
		}
	}
	for _, one := range all {
		// The table may have filled since the last process. While it has room, a high count must not stop a command
		// that only loads many libraries.
		if table, err = boundary.OpenFiles(); err != nil {
			return 0
		}
		if files += boundary.MappedFiles(one, table.Scarce(), bound-files); files > bound {
			return files
		}
	}
	return files
}

// requestStop requests a stop of the command, unless an earlier request is pending. The caller repeats the request
// while its reason lasts.
func (o *owner) requestStop(l leave) {
	select {
	case o.leave <- l:
	default:
	}
}
