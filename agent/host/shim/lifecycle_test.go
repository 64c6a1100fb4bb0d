package shim_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/logship"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func TestControl_Await_exitStatus(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]shim.Exit{
		"exit 0":                     {},
		"exit 1":                     {Code: 1},
		"exit 255":                   {Code: 255},
		"exit 137":                   {Code: 137},
		"kill -TERM $$; sleep 300":   {Code: -1, Signal: int(syscall.SIGTERM)},
		"kill -KILL $$; sleep 300":   {Code: -1, Signal: int(syscall.SIGKILL)},
		"kill -SEGV $$; sleep 300":   {Code: -1, Signal: int(syscall.SIGSEGV)},
		"kill -HUP $$; sleep 300":    {Code: -1, Signal: int(syscall.SIGHUP)},
		"exec 1>&- 2>&-; exit 4":     {Code: 4},
		"(sleep 300 &) ; exit 5":     {Code: 5},
		"trap '' HUP PIPE; exit 6":   {Code: 6},
		"sh -c 'kill -9 $$'; exit 7": {Code: 7},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := script(t, text)
			b.launch()
			exit, found := b.ends()
			require.True(t, found)
			require.False(t, exit.StartedAt.IsZero())
			require.False(t, exit.EndedAt.Before(exit.StartedAt))
			exit.StartedAt, exit.EndedAt = time.Time{}, time.Time{}
			want.Version = shim.Version
			require.Equal(t, want, exit)
		})
	}
}

func TestControl_Launch_concurrent(t *testing.T) {
	t.Parallel()
	b := script(t, "echo x; while [ ! -e go ]; do sleep 0.01; done")
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() { errs <- b.Launch(b.dir, b.start) })
	}
	wg.Wait()
	close(errs)
	won := 0
	for err := range errs {
		if err == nil {
			won++
		}
	}
	require.Equal(t, 1, won)
	b.awaitLine("x")
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600))
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code)
	require.Equal(t, "x\n", b.log(), "the command must be started only once")
}

func TestShim_SIGTERMStopsWithDefaultGrace(t *testing.T) {
	t.Parallel()
	b := script(t, "trap 'echo bye; exit 4' TERM; echo begun; while :; do sleep 0.02; done")
	b.launch()
	b.awaitLine("begun")
	r, err := b.Running(b.dir)
	require.NoError(t, err)
	require.True(t, r.Shim.Signal(syscall.SIGTERM))
	exit, found := b.ends()
	require.True(t, found)
	require.True(t, exit.Stopped)
	require.Equal(t, 4, exit.Code)
	require.Contains(t, b.log(), "bye")
	require.False(t, b.StopRequested(b.dir), "StopRequested must be false, because the agent has not requested a stop")
}

func TestShim_ignoresSIGHUPAndSIGPIPE(t *testing.T) {
	t.Parallel()
	b := script(t, "echo begun; while [ ! -e go ]; do sleep 0.01; done; exit 3")
	b.launch()
	b.awaitLine("begun")
	r, err := b.Running(b.dir)
	require.NoError(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGPIPE} {
		require.True(t, r.Shim.Signal(sig))
	}
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600))
	exit, found := b.ends()
	require.True(t, found)
	require.Equal(t, 3, exit.Code)
	require.False(t, exit.Stopped)
}

func TestShim_processGroups(t *testing.T) {
	t.Parallel()
	b := script(t, "echo begun; sleep 300")
	b.launch()
	b.awaitLine("begun")
	r, err := b.Running(b.dir)
	require.NoError(t, err)
	group, err := syscall.Getpgid(r.Command.PID)
	require.NoError(t, err)
	require.Equal(t, r.Command.PID, group)
	own, err := syscall.Getpgid(r.Shim.PID)
	require.NoError(t, err)
	require.Equal(t, r.Shim.PID, own, "the shim must lead its own process group")
	require.NotEqual(t, syscall.Getpgrp(), own)
	require.Contains(t, shim.Descendants(r.Shim.PID), r.Command.PID)
	require.Equal(t, r.Command, b.Identity(b.dir))
	require.NoError(t, b.Stop(b.dir, 0))
	b.ends()
}

func TestShim_log(t *testing.T) {
	t.Parallel()
	b := script(t, "echo out; echo err >&2; echo more")
	require.NoError(t, os.WriteFile(b.start.Log, []byte("before\n"), 0o600))
	b.launch()
	b.ends()
	require.Equal(t, "before\nout\nerr\nmore\n", b.log())
	fresh := script(t, "echo x")
	fresh.launch()
	fresh.ends()
	for _, name := range []string{"log", "start.json", "run.json", "exit.json", "lock", "shim.log"} {
		info, err := os.Stat(filepath.Join(fresh.dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
}

// A shell opens /dev/stderr again and truncates what it opens.
func TestShim_logReopened(t *testing.T) {
	t.Parallel()
	const text = "echo before; echo truncates > /dev/stderr; echo appends >> /dev/stdout; echo after"
	for name, b := range map[string]*harness{"isolated": isolated(t, text), "not isolated": script(t, text)} {
		b.launch()
		b.ends()
		require.Equal(t, "before\ntruncates\nappends\nafter\n", b.log(), name)
	}
}

func TestShim_logWithinBounds(t *testing.T) {
	t.Parallel()
	b := isolated(t, "echo first; yes | head -c 50000000; echo last >&2")
	b.start.LogBounds = logship.Bounds{Bytes: 1 << 20}
	b.launch()
	exit, _ := b.ends()
	require.Zero(t, exit.Code, "a work must not fail because of its log")
	log := b.log()
	require.Less(t, len(log), 1<<20+128<<10)
	require.True(t, strings.HasPrefix(log, "first\ny\n"))
	require.True(t, strings.HasSuffix(log, "y\nlast\n"))
	require.Regexp(t, `\n\[signalbox: 24\d{6} lines \(48\d{6} bytes\) of the output were dropped here`, log)
}

// A process outside of the boundary holds the output open. The work ends nevertheless.
func TestShim_logHeldByOtherProcess(t *testing.T) {
	t.Parallel()
	b := script(t, "echo $$; read go < fifo; echo end")
	require.NoError(t, syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o600))
	b.launch()
	require.Eventually(t, func() bool { return strings.HasSuffix(b.log(), "\n") }, time.Minute, 5*time.Millisecond)
	held, err := os.OpenFile("/proc/"+strings.TrimSpace(b.log())+"/fd/1", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { _ = held.Close() }()
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "fifo"), []byte("go\n"), 0o600))
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code)
	require.True(t, strings.HasSuffix(b.log(), "end\n"))
}

func TestShim_environment(t *testing.T) {
	t.Parallel()
	b := script(t, "")
	b.start.Path, b.start.Args = "env", []string{"env"}
	b.start.Env = []string{"PATH=/usr/bin:/bin", "EMPTY=", "MINE=a b=c"}
	b.launch()
	b.ends()
	require.ElementsMatch(t, []string{"PATH=/usr/bin:/bin", "EMPTY=", "MINE=a b=c", shim.MarkName + "=" + b.start.Mark},
		strings.Split(strings.TrimSpace(b.log()), "\n"))
}

func TestShim_lookupInCommandPATH(t *testing.T) {
	t.Parallel()
	here := t.TempDir()
	tool := filepath.Join(here, "tool-of-the-test")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\necho found $0\n"), 0o700))
	for name, c := range map[string]struct {
		path, dir, program string
		found              bool
	}{
		"second folder of PATH": {"/nowhere:" + here, "/", "tool-of-the-test", true},
		"not in PATH":           {"/usr/bin:/bin", here, "tool-of-the-test", false},
		"relative PATH entry":   {".:", here, "tool-of-the-test", false},
		"empty PATH":            {"", here, "tool-of-the-test", false},
		"absolute path":         {"", "/", tool, true},
		"relative path":         {"", here, "./tool-of-the-test", true},
		"folder":                {"/usr", "/", "bin", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := script(t, "")
			b.start.Path, b.start.Args, b.start.Env, b.start.Dir = c.program, []string{c.program}, []string{"PATH=" + c.path}, c.dir
			b.launch()
			exit, found := b.ends()
			require.True(t, found)
			require.Equal(t, c.found, exit.Failure == "", exit.Failure)
			require.Equal(t, c.found, strings.HasPrefix(b.log(), "found"), b.log())
		})
	}
}

func TestControl_Stop_afterEnd(t *testing.T) {
	t.Parallel()
	b := script(t, "exit 3")
	b.launch()
	before, _ := b.ends()
	require.NoError(t, b.Stop(b.dir, 0))
	after, found := b.ends()
	require.True(t, found)
	require.Equal(t, before, after)
	require.False(t, after.Stopped)
}

func TestControl_Await_canceled(t *testing.T) {
	t.Parallel()
	b := script(t, "echo begun; while [ ! -e go ]; do sleep 0.01; done; exit 8")
	b.launch()
	b.awaitLine("begun")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, _, err := b.Await(ctx, b.dir); done <- err }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	state, err := b.State(b.dir)
	require.NoError(t, err)
	require.Equal(t, shim.Alive, state)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600))
	exit, found := b.ends()
	require.True(t, found)
	require.Equal(t, 8, exit.Code)
}

func TestControl_Await_concurrent(t *testing.T) {
	t.Parallel()
	b := script(t, "echo begun; while [ ! -e go ]; do sleep 0.01; done; exit 9")
	b.launch()
	b.awaitLine("begun")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			exit, found, err := b.Await(context.Background(), b.dir)
			if err != nil || !found || exit.Code != 9 {
				t.Errorf("Await returned %+v, %v, %v", exit, found, err)
			}
		})
	}
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600))
	wg.Wait()
}

func TestControl_damagedFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"run.json", "exit.json"} {
		b := script(t, "exit 3")
		b.launch()
		b.ends()
		require.NoError(t, os.Remove(filepath.Join(b.dir, "exit.json")))
		require.NoError(t, os.WriteFile(filepath.Join(b.dir, name), []byte("{"), 0o600))
		_, _, err := b.Await(t.Context(), b.dir)
		require.ErrorContains(t, err, name)
		require.NotErrorIs(t, err, shim.ErrNotStarted, "the command must not be started again")
		require.Error(t, b.Launch(b.dir, b.start))
	}
}

func TestMain_missingStartFile(t *testing.T) {
	t.Parallel()
	var words strings.Builder
	dir := t.TempDir()
	require.Equal(t, 1, shim.Main([]string{dir}, clock.Real(), &words))
	require.Contains(t, words.String(), "start.json")
	state, err := shim.Control{}.State(dir)
	require.NoError(t, err)
	require.Equal(t, shim.Never, state)
	var exit shim.Exit
	require.ErrorIs(t, shim.ReadExit(dir, &exit), fs.ErrNotExist)
}

func TestReadExit_allFields(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC)
	want := shim.Exit{Code: -1, Signal: 9, OOM: true, Stopped: true, Failure: "why", StartedAt: at, EndedAt: at.Add(time.Second)}
	raw, err := json.Marshal(want)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "exit.json"), raw, 0o600))
	var got shim.Exit
	require.NoError(t, shim.ReadExit(dir, &got))
	require.Equal(t, want, got)
}

func TestControl_Stop_forkBomb(t *testing.T) {
	t.Parallel()
	// Each process starts two more in their own sessions. The depth is limited, so that a failure of this test
	// does not exhaust the machine.
	b := script(t, "sh f 4")
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "f"), []byte(
		"echo $$ >> pids; [ $1 -gt 0 ] || exec sleep 300; setsid sh f $(($1-1)) & setsid sh f $(($1-1)) & wait\n"), 0o600))
	b.launch()
	pids := func() []string {
		raw, _ := os.ReadFile(filepath.Join(b.dir, "pids"))
		return strings.Fields(string(raw))
	}
	require.Eventually(t, func() bool { return len(pids()) >= 30 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, b.Stop(b.dir, 0))
	_, found := b.ends()
	require.True(t, found)
	for _, field := range pids() {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "process %d must have ended", pid)
	}
}

// A stop that comes after the end of the command does not count, even if the shim notices both at the same time.
func TestShim_stopAfterEndDoesNotCount(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			b := script(t, "echo begun; while [ ! -e go ]; do sleep 0.01; done; exit 3")
			b.launch()
			b.awaitLine("begun")
			r, err := b.Running(b.dir)
			require.NoError(t, err)
			require.True(t, r.Shim.Signal(syscall.SIGSTOP))
			require.NoError(t, os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600))
			require.Eventually(t, func() bool { return !r.Command.Alive() }, time.Minute, 5*time.Millisecond)
			require.NoError(t, b.Stop(b.dir, 0))
			require.True(t, r.Shim.Signal(syscall.SIGCONT))
			exit, found := b.ends()
			require.True(t, found)
			require.Equal(t, 3, exit.Code)
			require.False(t, exit.Stopped)
		})
	}
}
