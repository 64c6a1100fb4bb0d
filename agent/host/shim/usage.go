package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// usage is what folders contain. It follows no links, so that a command cannot make it leave the folders.
type usage struct {
	bounds       DiskBounds
	bytes, files int64
	// linked contains the files with several names that were added, and devices the devices of the folders.
	linked  map[inode]bool
	devices map[uint64]bool
	// unmeasured is set if a folder cannot be read.
	unmeasured error
}

type inode struct{ device, number uint64 }

const (
	// maxDepth limits the folders within folders. Each folder is open while its content is added.
	maxDepth = 200
	// namesAtOnce is how many names of a folder are read at a time.
	namesAtOnce = 1024
	// blockSize is the unit of the number of blocks in a unix.Stat_t.
	blockSize = 512
)

func (u *usage) over() bool {
	return u.unmeasured != nil || u.bytes > u.bounds.Bytes || u.files > u.bounds.Files
}

// addFolder adds the content of the folder with the given name in the folder parent. The parameter path is for messages.
func (u *usage) addFolder(parent int, name, path string, depth int) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return // it was removed or replaced meanwhile
	case err != nil:
		u.unmeasured = fmt.Errorf("open %s: %w", path, err)
		return
	case depth > maxDepth:
		u.unmeasured = fmt.Errorf("%s contains more than %d folders within each other", u.bounds.Folders[0], maxDepth)
	}
	dir := os.NewFile(uintptr(fd), path)
	defer func() { _ = dir.Close() }()
	var s unix.Stat_t
	if unix.Fstat(fd, &s) == nil {
		u.devices[s.Dev] = true
	}
	for !u.over() {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if u.addEntry(fd, name, filepath.Join(path, name), depth); u.over() {
				return
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
			return
		}
		if err != nil {
			u.unmeasured = fmt.Errorf("read %s: %w", path, err)
		}
	}
}

// addEntry adds a file, or a folder with its content.
func (u *usage) addEntry(parent int, name, path string, depth int) {
	var s unix.Stat_t
	if err := unix.Fstatat(parent, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if !errors.Is(err, unix.ENOENT) {
			u.unmeasured = fmt.Errorf("read %s: %w", path, err)
		}
		return
	}
	folder := s.Mode&unix.S_IFMT == unix.S_IFDIR
	if s.Nlink > 1 && !folder {
		if u.linked[inode{s.Dev, s.Ino}] {
			return
		}
		u.linked[inode{s.Dev, s.Ino}] = true
	}
	u.files++
	u.bytes += s.Blocks * blockSize
	if folder {
		u.addFolder(parent, name, path, depth+1)
	}
}

// addDeleted adds the files that the processes have open, and that have no name any more.
func (u *usage) addDeleted(pids []int) {
	for _, pid := range pids {
		dir, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
		if err != nil {
			continue // the process has ended
		}
		for err == nil && !u.over() {
			var names []string
			names, err = dir.Readdirnames(namesAtOnce)
			for _, name := range names {
				u.addOpen(filepath.Join(dir.Name(), name))
			}
		}
		_ = dir.Close()
	}
}

// addOpen adds the open file at the path in /proc, if it is deleted and on the device of one of the folders.
func (u *usage) addOpen(path string) {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink > 0 || !u.devices[s.Dev] || u.linked[inode{s.Dev, s.Ino}] {
		return
	}
	u.linked[inode{s.Dev, s.Ino}] = true
	u.files++
	u.bytes += s.Blocks * blockSize
}
