package stand

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Left lists the processes that a folder's installation has left running: those whose arguments or
// environment name the folder.
func Left(dir string) []int {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(filepath.Base(e))
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"cmdline", "environ"} {
			raw, err := os.ReadFile(filepath.Join(e, file))
			if err == nil && names(raw, dir) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// names tells that the text holds the folder or something in it, not a folder whose name begins alike:
// stands run side by side, in folders that differ by their numbers.
func names(raw []byte, dir string) bool {
	for rest := raw; ; {
		at := bytes.Index(rest, []byte(dir))
		if at < 0 {
			return false
		}
		rest = rest[at+len(dir):]
		if len(rest) == 0 || rest[0] < '0' || rest[0] > '9' {
			return true
		}
	}
}

// sweep ends what a killed agent's shims still run, which would otherwise outlive the test.
func sweep(t testing.TB, dir string) {
	t.Helper()
	for _, pid := range Left(dir) {
		t.Logf("ending process %d, which outlived its agent", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
