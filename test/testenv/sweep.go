package testenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
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

// sweep ends what a killed agent's shims still run, which would otherwise outlive the test, with its cgroups.
func sweep(t testing.TB, dir string) {
	t.Helper()
	for _, pid := range Left(dir) {
		t.Logf("ending process %d, which outlived its agent", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, group := range groups(t, dir) {
		removeGroup(t, group)
	}
}

// removeGroup waits until the kernel lets the group go: those who were in it die beside this.
func removeGroup(t testing.TB, group string) {
	t.Helper()
	for deadline := time.Now().Add(stopTimeout); ; <-time.After(look) {
		err := os.Remove(group)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Logf("a work's cgroup is left: %v", err)
			return
		}
	}
}

// groups are the cgroups that the shims of a folder's works made, which nobody removes for a shim that was
// killed.
func groups(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "start.json" {
			return nil //nolint:nilerr // what is gone meanwhile has no group
		}
		raw, err := os.ReadFile(path)
		var start struct {
			Limits struct {
				Groups []string `json:"groups"`
			} `json:"limits"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &start)
		}
		if err != nil {
			t.Logf("what a shim was to run: %v", err)
		}
		all = append(all, start.Limits.Groups...)
		return nil
	})
	return all
}
