package shim

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// DiskBounds limits what the folders of a command contain, if they are not on a disk of their own. A zero value sets no
// limit.
type DiskBounds struct {
	Folders []string `json:"folders"`
	// Bytes is the disk space, and Files the number of files and folders.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
}

const (
	// diskInterval is the shortest time between two measurements of the folders.
	diskInterval = time.Second
	// diskShare is the time between two measurements, divided by the time that the last one took. It limits the share of
	// a processor that the measurements of many files take.
	diskShare = 20
)

// watchDisk stops the command when two measurements in a row find more in its folders than they may contain. A single
// one counts a file twice that is moved or deleted meanwhile. The returned function ends the watch.
func (o *owner) watchDisk() (end func()) {
	if len(o.start.Disk.Folders) == 0 {
		return func() {}
	}
	return watch(func(ctx context.Context) {
		before := false
		for pause := diskInterval; clock.Sleep(ctx, o.clock, pause) == nil; {
			began := o.clock.Now()
			over := o.start.Disk.exceeded(ctx, os.Getpid())
			if over != "" && before {
				o.requestStop(leave{cause: CauseDisk, reason: over})
			}
			before = over != ""
			pause = max(diskInterval, diskShare*o.clock.Now().Sub(began))
		}
	})
}

// exceeded returns why the folders, together with the deleted files that descendants of the process pid have open, exceed
// the bounds, or "" if they do not. When ctx is done, the result means nothing.
func (b DiskBounds) exceeded(ctx context.Context, pid int) string {
	u := usage{bounds: b, linked: map[inode]bool{}, devices: map[uint64]bool{}}
	for _, folder := range b.Folders {
		if u.addFolder(ctx, unix.AT_FDCWD, folder, folder, 0); u.done(ctx) {
			break
		}
	}
	if !u.done(ctx) {
		u.addDeleted(ctx, Descendants(pid))
	}
	switch {
	case u.hidden != nil:
		return fmt.Sprintf("the disk space of the work cannot be measured: %v; make its folders readable and nest them less deeply", u.hidden)
	case u.bytes > b.Bytes, u.files > b.Files:
		return fmt.Sprintf("the work used at least %d of %d bytes of disk space and %d of %d files; write less, or ask an admin of the node "+
			"to set a larger SERVICE_AGENT_WORK_DISK_BYTES", u.bytes, b.Bytes, u.files, b.Files)
	}
	return ""
}
