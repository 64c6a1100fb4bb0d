package pgtest

import (
	"os"
	"syscall"
)

const (
	memory = "/dev/shm"
	room   = 4 << 30
	// From statfs(2) and mount(2).
	tmpfsMagic  = 0x01021994
	notExecuted = 0x8
)

// TempDir returns the folder in which tests keep what they throw away: TMPDIR where it is set, else one in memory that has
// room, else the system's. Databases are many small files, which some file systems are slow to make and remove.
func TempDir() string {
	if os.Getenv("TMPDIR") == "" && roomy(memory) {
		return memory
	}
	return os.TempDir()
}

// roomy reports whether dir is in memory, has room and lets programs run.
func roomy(dir string) bool {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return false
	}
	return fs.Type == tmpfsMagic && fs.Flags&notExecuted == 0 && fs.Bavail*uint64(fs.Bsize) >= room
}
