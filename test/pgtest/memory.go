package pgtest

import (
	"os"
	"syscall"
)

const (
	memory = "/dev/shm"
	room   = 4 << 30
	// These values are from statfs(2) and mount(2).
	tmpfsMagic  = 0x01021994
	notExecuted = 0x8
)

// TempDir returns the folder for temporary files of tests: TMPDIR if it is set, otherwise a folder in
// memory if that has enough free space, otherwise the system's default. A database has many small files,
// and some file systems create and remove them slowly.
func TempDir() string {
	if os.Getenv("TMPDIR") == "" && roomy(memory) {
		return memory
	}
	return os.TempDir()
}

// roomy reports whether dir is in memory, has enough free space and allows programs to be executed.
func roomy(dir string) bool {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return false
	}
	return fs.Type == tmpfsMagic && fs.Flags&notExecuted == 0 && fs.Bavail*uint64(fs.Bsize) >= room
}
