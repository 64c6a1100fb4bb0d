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
			if err == nil && bytes.Contains(raw, []byte(dir)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// sweep ends what a killed agent's shims still run, which would otherwise outlive the test.
func sweep(t testing.TB, dir string) {
	t.Helper()
	for _, pid := range Left(dir) {
		t.Logf("ending process %d, which outlived its agent", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
