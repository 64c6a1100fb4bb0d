package shim_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// TestMain runs the shim instead of the tests if the first argument is `shim`.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		collectOnSignal()
		os.Exit(shim.Main(os.Args[2:], clock.Real(), os.Stderr))
	}
	os.Exit(m.Run())
}

type harness struct {
	*testing.T
	shim.Control
	dir   string
	start shim.Start
}

func script(t *testing.T, text string) *harness {
	t.Helper()
	dir := t.TempDir()
	return &harness{
		T: t, Control: shim.Control{Exec: []string{os.Args[0], "shim"}, Clock: clock.Real()}, dir: dir,
		start: shim.Start{
			Path: "/bin/sh", Args: []string{"sh", "-c", text}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir,
			Log: filepath.Join(dir, "log"), Limits: boundary.Plan{Mode: boundary.Rlimit}, Mark: filepath.Base(dir) + t.Name(),
		},
	}
}

func (b *harness) launch() {
	b.Helper()
	require.NoError(b, b.Launch(b.dir, b.start))
}

func (b *harness) ends() (shim.Exit, bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	exit, found, err := b.Await(ctx, b.dir)
	require.NoError(b, err)
	return exit, found
}

func (b *harness) log() string {
	raw, _ := os.ReadFile(b.start.Log)
	return string(raw)
}

// awaitLine waits until the log contains the given line.
func (b *harness) awaitLine(line string) {
	b.Helper()
	require.Eventually(b, func() bool { return strings.Contains(b.log(), line) }, time.Minute, 5*time.Millisecond)
}

func TestControl_State_lifecycle(t *testing.T) {
	t.Parallel()
	b := script(t, "echo begun; while :; do sleep 0.02; done")
	state, err := b.State(b.dir)
	require.NoError(t, err)
	require.Equal(t, shim.Never, state)
	b.launch()
	state, err = b.State(b.dir)
	require.NoError(t, err)
	require.Equal(t, shim.Alive, state)
	require.Error(t, b.Launch(b.dir, b.start), "Launch must reject a second shim in the same folder")
	b.awaitLine("begun")
	r, err := b.Running(b.dir)
	require.NoError(t, err)
	require.True(t, r.Shim.Alive())
	require.True(t, r.Command.Alive())
	require.NoError(t, b.Stop(b.dir, 0))
	exit, found := b.ends()
	require.True(t, found)
	require.True(t, exit.Stopped)
	require.False(t, r.Shim.Alive())
	require.ErrorContains(t, b.Launch(b.dir, b.start), "already started")
}

func TestControl_Await_killedShim(t *testing.T) {
	t.Parallel()
	// One child is in the process group and one has its own session. Neither may survive.
	b := script(t, "setsid sleep 300 & echo $!; sleep 300 & echo $!; echo begun; wait")
	b.launch()
	b.awaitLine("begun")
	r, err := b.Running(b.dir)
	require.NoError(t, err)
	require.True(t, r.Shim.Signal(syscall.SIGKILL))
	_, found := b.ends()
	require.False(t, found, "the exit status must be unknown")
	state, err := b.State(b.dir)
	require.NoError(t, err)
	require.Equal(t, shim.Lost, state)
	require.False(t, r.Command.Alive())
	for _, field := range strings.Fields(b.log())[:2] {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		// A zombie counts as ended.
		left, err := shim.Lookup(pid)
		require.False(t, err == nil && left.Alive(), "process %d must have ended", pid)
	}
}

func TestControl_Await_killedBeforeStart(t *testing.T) {
	t.Parallel()
	b := script(t, "echo x")
	b.launch()
	_, found := b.ends()
	require.True(t, found)
	// Create the state on disk that a shim leaves if it is killed between its first two writes.
	require.NoError(t, os.Remove(filepath.Join(b.dir, "exit.json")))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "run.json"), []byte(`{"shim":{"pid":1,"start":1,"boot":"x"}}`), 0o600))
	_, _, err := b.Await(t.Context(), b.dir)
	require.ErrorIs(t, err, shim.ErrNotStarted)
	b.launch()
	_, found = b.ends()
	require.True(t, found)
	require.Equal(t, "x\nx\n", b.log())
}

func TestControl_Stop_beforeLaunch(t *testing.T) {
	t.Parallel()
	b := script(t, "echo never")
	require.NoError(t, b.Stop(b.dir, time.Second))
	require.True(t, b.StopRequested(b.dir))
	b.launch()
	exit, found := b.ends()
	require.True(t, found)
	require.True(t, exit.Stopped)
	require.Empty(t, b.log())
}

func TestControl_Stop_shortestGraceApplies(t *testing.T) {
	t.Parallel()
	b := script(t, "trap '' TERM; echo begun; while :; do sleep 0.02; done")
	b.launch()
	b.awaitLine("begun")
	require.NoError(t, b.Stop(b.dir, time.Hour))
	require.NoError(t, b.Stop(b.dir, 200*time.Millisecond))
	require.NoError(t, b.Stop(b.dir, time.Hour))
	exit, found := b.ends()
	require.True(t, found)
	require.Equal(t, int(syscall.SIGKILL), exit.Signal, "the command must be killed after the shorter grace")
}

func TestControl_Await_startFailures(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*shim.Start){
		"missing command": func(s *shim.Start) { s.Path = "no-such-command" },
		"missing file":    func(s *shim.Start) { s.Path = "/no/such/file" },
		"missing folder":  func(s *shim.Start) { s.Dir = "/no/such/folder" },
		"missing log":     func(s *shim.Start) { s.Log = "/no/such/folder/log" },
		"missing cgroup": func(s *shim.Start) {
			s.Limits = boundary.Plan{Mode: boundary.Cgroup1, Groups: []string{"/no/such/group"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := script(t, "true")
			change(&b.start)
			b.launch()
			exit, found := b.ends()
			require.True(t, found)
			require.Equal(t, -1, exit.Code)
			require.NotEmpty(t, exit.Failure)
		})
	}
}

func TestShim_inheritedDescriptors(t *testing.T) {
	t.Parallel()
	b := script(t, "ls -l /proc/$$/fd; env; cat")
	b.launch()
	exit, _ := b.ends()
	require.Zero(t, exit.Code)
	require.NotContains(t, b.log(), "/lock", "the command must not inherit the shim's lock")
	require.NotContains(t, b.log(), "GOCACHE")
	require.Contains(t, b.log(), shim.MarkName+"="+b.start.Mark)
}

func TestShim_memoryLimit(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	holder := boundary.Detect("/sys/fs/cgroup", string(own))
	python, err := exec.LookPath("python3")
	require.NoError(t, err)
	b := script(t, "exec "+python+" -c 'x = bytearray(600 << 20); print(len(x))'")
	b.start.Env = append(b.start.Env, "HOME="+os.Getenv("HOME"), "PATH="+os.Getenv("PATH"))
	b.start.Limits = holder.Plan("test-"+strconv.Itoa(os.Getpid()), executor.Limits{MemoryBytes: 200 << 20, PIDs: 64, CPUs: 1})
	b.launch()
	exit, found := b.ends()
	require.True(t, found)
	require.True(t, exit.Code != 0 || exit.Signal != 0, "the limit must be enforced: %s", b.log())
	if holder.Mode() == boundary.Rlimit {
		require.Contains(t, b.log(), "MemoryError")
		return
	}
	require.True(t, exit.OOM, "%+v %s", exit, b.log())
	for _, group := range b.start.Limits.Groups {
		require.NoDirExists(t, group, "the cgroup must be removed")
	}
}

func TestShim_killsProcessInOtherSession(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	holder := boundary.Detect("/sys/fs/cgroup", string(own))
	b := script(t, "(setsid sleep 300 & echo $!); echo begun; sleep 300")
	b.start.Limits = holder.Plan("fled-"+strconv.Itoa(os.Getpid()), executor.Limits{PIDs: 64})
	b.launch()
	b.awaitLine("begun")
	fled, err := strconv.Atoi(strings.Fields(b.log())[0])
	require.NoError(t, err)
	require.NoError(t, b.Stop(b.dir, 0))
	_, found := b.ends()
	require.True(t, found)
	require.ErrorIs(t, syscall.Kill(fled, 0), syscall.ESRCH)
}

func TestMain_usage(t *testing.T) {
	t.Parallel()
	var words strings.Builder
	require.Equal(t, 1, shim.Main(nil, clock.Real(), &words))
	require.Contains(t, words.String(), "usage")
	require.False(t, errors.Is(shim.ErrNotStarted, os.ErrNotExist))
}
