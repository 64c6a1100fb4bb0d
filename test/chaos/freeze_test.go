package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// freeze stops the process group of a process and waits until the process is stopped. ok is false if the process has
// already ended. The function thaw lets the group continue; so does the cleanup at the end of the test.
func freeze(ctx context.Context, t *testing.T, s *testenv.Installation, pid int) (thaw func(), ok bool) {
	t.Helper()
	group, err := syscall.Getpgid(pid)
	if err != nil || syscall.Kill(-group, syscall.SIGSTOP) != nil {
		return nil, false
	}
	require.NotEqual(t, syscall.Getpgrp(), group)
	thaw = func() { _ = syscall.Kill(-group, syscall.SIGCONT) }
	t.Cleanup(thaw) // even if the test fails before it calls thaw
	state := byte(0)
	s.Until(ctx, fmt.Sprint("process ", pid, " is stopped"), func() bool {
		state = stateOf(pid)
		return state == 'T' || state == 'Z' || state == 0
	})
	if state != 'T' {
		thaw()
	}
	return thaw, state == 'T'
}

// stateOf returns the kernel's state letter of a process, or 0 if it does not exist.
func stateOf(pid int) byte {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	at := bytes.LastIndexByte(raw, ')')
	if err != nil || at < 0 || at+2 >= len(raw) {
		return 0
	}
	return raw[at+2]
}

// commandLine returns the command line of a process, with a space after each word, or "" if the process does not exist.
func commandLine(pid int) string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(raw), "\x00", " ")
}

// freezeBuild waits until an installer installs packages into an environment that is not yet complete, and freezes the
// installer.
func freezeBuild(ctx context.Context, t *testing.T, s *testenv.Installation) (thaw func()) {
	t.Helper()
	s.Until(ctx, "an installer fills an environment", func() bool {
		halves, err := filepath.Glob(filepath.Join(s.Environments, "*.build-*", "venv"))
		require.NoError(t, err)
		for _, half := range halves {
			for _, pid := range testenv.LeftProcesses(half) {
				if !strings.Contains(commandLine(pid), " install ") {
					continue
				}
				if release, ok := freeze(ctx, t, s, pid); ok {
					require.DirExists(t, half, "the environment must be unfinished")
					t.Logf("the build is frozen: %s", commandLine(pid))
					thaw = release
					return true
				}
			}
		}
		return false
	})
	return thaw
}

// work returns the folder of the work whose assignment contains the given text, or "" if no assignment does.
func work(t *testing.T, s *testenv.Installation, text string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.AgentDir(), "works", "*", "assignment.json"))
	require.NoError(t, err)
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && bytes.Contains(raw, []byte(text)) {
			return filepath.Dir(file)
		}
	}
	return ""
}

// freezeWork finds the work whose assignment contains the given text. It waits until the process in the work's
// subfolder `run` executes the given program. It then freezes that process and returns its id.
func freezeWork(ctx context.Context, t *testing.T, s *testenv.Installation, text, run, program string) (pid int, thaw func()) {
	t.Helper()
	s.Until(ctx, program+" runs", func() bool {
		dir := work(t, s, text)
		raw, err := os.ReadFile(filepath.Join(dir, run, "run.json"))
		var running struct {
			Command struct {
				PID int `json:"pid"`
			} `json:"command"`
		}
		if dir == "" || err != nil || json.Unmarshal(raw, &running) != nil {
			return false
		}
		pid = running.Command.PID
		if !strings.Contains(commandLine(pid), program) {
			return false // the agent's shim has not executed the program yet
		}
		ok := false
		thaw, ok = freeze(ctx, t, s, pid)
		require.True(t, ok, "%s must still be running", program)
		return true
	})
	return pid, thaw
}
