package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// usage is what folders contain. It follows no links and enters no other file systems, so that a command cannot make it
// leave the folders. Files that cannot be examined because of a fault of the machine are left out.
type usage struct {
	bounds       DiskBounds
	bytes, files int64
	// linked contains the files with several names that were added, and devices the devices of the folders.
	linked  map[inode]bool
	devices map[uint64]bool
	// hidden is set if a command has hidden what a folder contains.
	hidden error
}

type inode struct{ device, number uint64 }

const (
	// maxDepth limits the folders within folders, each open while its content is added.
	maxDepth = 200
	// namesAtOnce is how many names of a folder are read at a time.
	namesAtOnce = 1024
	// blockSize is the unit of the number of blocks in a unix.Stat_t.
	blockSize = 512
)

// done reports whether the measurement can end.
func (u *usage) done(ctx context.Context) bool {
	return u.hidden != nil || u.bytes > u.bounds.Bytes || u.files > u.bounds.Files || ctx.Err() != nil
}

// addFolder adds the content of the folder with the given name in the folder parent. The parameter path is for messages.
func (u *usage) addFolder(ctx context.Context, parent int, name, path string, depth int) {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		return err
	})
	if errors.Is(err, unix.EACCES) {
		u.hidden = fmt.Errorf("open %s: %w", path, err)
	}
	if err != nil {
		return // in particular, the folder may have been removed or replaced meanwhile
	}
	dir := os.NewFile(uintptr(fd), path)
	defer func() { _ = dir.Close() }()
	var s unix.Stat_t
	if unix.Fstat(fd, &s) != nil {
		return
	}
	if depth == 0 {
		u.devices[s.Dev] = true
	}
	if depth > maxDepth {
		u.hidden = fmt.Errorf("%s contains more than %d folders within each other", u.bounds.Folders[0], maxDepth)
	}
	for !u.done(ctx) {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if u.addEntry(ctx, fd, name, filepath.Join(path, name), depth); u.done(ctx) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// addEntry adds a file, or a folder with its content.
func (u *usage) addEntry(ctx context.Context, parent int, name, path string, depth int) {
	var s unix.Stat_t
	err := again(func() error { return unix.Fstatat(parent, name, &s, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, unix.EACCES) {
		u.hidden = fmt.Errorf("examine %s: %w", path, err)
	}
	if err != nil || !u.devices[s.Dev] {
		return
	}
	folder := s.Mode&unix.S_IFMT == unix.S_IFDIR
	if s.Nlink > 1 && !folder && u.counted(s) {
		return
	}
	u.files++
	u.bytes += s.Blocks * blockSize
	if folder {
		u.addFolder(ctx, parent, name, path, depth+1)
	}
}

// counted reports whether the file was counted before, and notes that it is counted now.
func (u *usage) counted(s unix.Stat_t) bool {
	file := inode{s.Dev, s.Ino}
	before := u.linked[file]
	u.linked[file] = true
	return before
}

// addDeleted adds the files that the processes have open, and that have no name any more.
func (u *usage) addDeleted(ctx context.Context, pids []int) {
	for _, pid := range pids {
		process := filepath.Join("/proc", strconv.Itoa(pid))
		if u.addDescriptors(ctx, filepath.Join(process, "fd")) > 0 {
			continue
		}
		// A process whose first thread has ended shows its files only in the folders of the other threads.
		threads, _ := filepath.Glob(filepath.Join(process, "task", "*", "fd"))
		for _, dir := range threads {
			if u.addDescriptors(ctx, dir) > 0 {
				break
			}
		}
	}
}

// addDescriptors adds the deleted files among the descriptors in a folder of /proc, and returns the number of these. It
// is 0 if the process has ended or hides its descriptors.
func (u *usage) addDescriptors(ctx context.Context, path string) (descriptors int) {
	dir, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer func() { _ = dir.Close() }()
	for err == nil && !u.done(ctx) {
		var names []string
		names, err = dir.Readdirnames(namesAtOnce)
		descriptors += len(names)
		for _, name := range names {
			u.addOpen(filepath.Join(path, name))
		}
	}
	return descriptors
}

// addOpen adds the open file at the path in /proc, if it is deleted and on the device of one of the folders. It does not
// examine other files, because that can block, for example on a server that is away.
func (u *usage) addOpen(path string) {
	target, err := os.Readlink(path)
	if err != nil || !strings.HasSuffix(target, " (deleted)") {
		return
	}
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink > 0 || !u.devices[s.Dev] || u.counted(s) {
		return
	}
	u.files++
	u.bytes += s.Blocks * blockSize
}

// again repeats fn while a signal interrupts it.
func again(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
