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

// LeftProcesses returns the ids of the processes that an installation has left running: those whose arguments or
// environment contain the path of its folder.
func LeftProcesses(dir string) []int {
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
			if err == nil && mentions(raw, dir) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// mentions reports whether the text contains the folder or a path in the folder. It ignores folders whose names
// continue with a digit, because concurrent installations have folders whose names differ only in a number at the
// end.
func mentions(raw []byte, dir string) bool {
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

// sweep kills the processes that an installation has left running, such as the works of a killed agent, and removes
// their cgroups. The processes would otherwise outlive the test.
func sweep(t testing.TB, dir string) {
	t.Helper()
	for _, pid := range LeftProcesses(dir) {
		t.Logf("ending process %d, which outlived its agent", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, group := range groups(t, dir) {
		removeGroup(t, group)
	}
}

// removeGroup removes a cgroup. It retries for stopTimeout, because processes in the group may still be exiting.
func removeGroup(t testing.TB, group string) {
	t.Helper()
	for deadline := time.Now().Add(stopTimeout); ; <-time.After(pollInterval) {
		err := os.Remove(group)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Logf("the cgroup of a work was not removed: %v", err)
			return
		}
	}
}

// groups returns the cgroups that the agent's shims in a folder created. A shim that was killed has not removed its
// cgroup.
func groups(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "start.json" {
			return nil //nolint:nilerr // the file was removed meanwhile
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
			t.Logf("read start.json: %v", err)
		}
		all = append(all, start.Limits.Groups...)
		return nil
	})
	return all
}
