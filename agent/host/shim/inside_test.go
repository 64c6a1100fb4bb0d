package shim_test

import (
	"os"
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
)

// testUser is the user of isolated works in tests that run as root.
const testUser = 212_345

// isolated returns a work that runs inside a boundary. The work owns the folder `work`, which is also its /tmp.
func isolated(t *testing.T, text string) *harness {
	t.Helper()
	b := script(t, text)
	b.isolate(testUser)
	return b
}

// isolate puts a boundary around the command. If the test does not run as root, the command runs as the test's user.
func (b *harness) isolate(user int) {
	b.Helper()
	kind, root := boundary.UserNamespace, os.Getuid() == 0
	if root {
		kind = boundary.OwnUser
	} else {
		user = os.Getuid()
	}
	for _, name := range []string{"work", "root"} {
		require.NoError(b, os.Mkdir(filepath.Join(b.dir, name), 0o700))
	}
	work := filepath.Join(b.dir, "work")
	if root {
		require.NoError(b, boundary.Give(work, user))
	}
	b.start.Dir = work
	b.start.Isolation = boundary.Isolation{
		Kind: kind, UID: user, Root: filepath.Join(b.dir, "root"), Home: work,
		Binds: []boundary.Bind{{Path: work, Access: boundary.Writable}, {Path: "/tmp", From: work, Access: boundary.Writable}},
	}
}

func TestIsolated_exitStatus(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]shim.Exit{
		"exit 0":                   {},
		"exit 255":                 {Code: 255},
		"kill -TERM $$; sleep 300": {Code: -1, Signal: int(syscall.SIGTERM)},
		"kill -KILL $$; sleep 300": {Code: -1, Signal: int(syscall.SIGKILL)},
		"kill -SEGV $$; sleep 300": {Code: -1, Signal: int(syscall.SIGSEGV)},
		"exec 1>&- 2>&-; exit 4":   {Code: 4},
		"(sleep 300 &) ; exit 5":   {Code: 5},
		"trap '' HUP PIPE; exit 6": {Code: 6},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := isolated(t, text)
			b.launch()
			exit, found := b.ends()
			require.True(t, found)
			exit.Version, exit.StartedAt, exit.EndedAt = 0, time.Time{}, time.Time{}
			require.Equal(t, want, exit, b.log())
		})
	}
}

// The unit of the agent sets this umask. This test is not parallel, because all tests of the process share the umask.
func TestIsolated_umask(t *testing.T) { //nolint:paralleltest // see above
	b := isolated(t, "set -e; cat /etc/passwd; cd \"$PWD\"; umask")
	defer syscall.Umask(syscall.Umask(0o077))
	b.launch()
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code, exit.Failure+b.log())
	require.Contains(t, b.log(), "0077\n", "the umask of the work must be that of its agent")
}

func TestIsolated_stopReachesTheCommand(t *testing.T) {
	t.Parallel()
	b := isolated(t, "trap 'echo bye; exit 4' TERM; echo begun; while :; do sleep 0.02; done")
	b.launch()
	b.awaitLine("begun")
	require.NoError(t, b.Stop(b.dir, time.Hour))
	exit, found := b.ends()
	require.True(t, found)
	require.True(t, exit.Stopped)
	require.Equal(t, 4, exit.Code)
	require.Contains(t, b.log(), "bye")
}

func TestIsolated_startFailures(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*shim.Start){
		"missing command": func(s *shim.Start) { s.Path = "no-such-command" },
		"missing folder":  func(s *shim.Start) { s.Dir = "/no/such/folder" },
		"missing bind": func(s *shim.Start) {
			s.Isolation.Binds = append(s.Isolation.Binds, boundary.Bind{Path: "/no/such/file", Access: boundary.ReadOnly})
		},
		"missing root":   func(s *shim.Start) { s.Isolation.Root = "/no/such/folder" },
		"unknown access": func(s *shim.Start) { s.Isolation.Binds[0].Access = "" },
		"missing cgroup": func(s *shim.Start) { s.Limits.Groups = []string{"/no/such/group"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := isolated(t, "true")
			change(&b.start)
			b.launch()
			exit, found := b.ends()
			require.True(t, found)
			require.Equal(t, -1, exit.Code)
			require.NotEmpty(t, exit.Failure)
		})
	}
}

// fleeing starts processes that leave their parent, session and process group and ignore every signal they can.
const fleeing = `
for n in 1 2 3; do (setsid sh -c 'trap "" TERM HUP INT QUIT USR1 PIPE; echo up; while :; do sleep 0.05; done' &) done
trap '' TERM
echo begun
while :; do sleep 0.02; done`

func TestIsolated_noProcessOutlivesTheStop(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*harness){
		"stop":       func(b *harness) { require.NoError(b, b.Stop(b.dir, 0)) },
		"shim dies":  func(b *harness) { r, _ := b.Running(b.dir); require.True(b, r.Shim.Signal(syscall.SIGKILL)) },
		"first dies": func(b *harness) { require.NoError(b, syscall.Kill(b.first(), syscall.SIGKILL)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := isolated(t, fleeing)
			b.launch()
			require.Eventually(t, func() bool { return strings.Count(b.log(), "up\n") == 3 }, time.Minute, 5*time.Millisecond)
			all := shim.Descendants(b.first())
			require.Greater(t, len(all), 3)
			end(b)
			b.ends()
			for _, pid := range all {
				left, err := shim.Lookup(pid)
				require.False(t, err == nil && left.Alive(), "process %d must have ended", pid)
			}
		})
	}
}

// first returns the pid of the first process inside the boundary.
func (b *harness) first() int {
	b.Helper()
	r, err := b.Running(b.dir)
	require.NoError(b, err)
	for _, pid := range shim.Descendants(r.Shim.PID) {
		if pid != r.Command.PID {
			return pid // Descendants lists parents first.
		}
	}
	b.Fatal("the command has no parent inside the boundary")
	return 0
}

func TestIsolated_limits(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	limits := boundary.Detect("/sys/fs/cgroup", string(own))
	for name, c := range map[string]struct {
		limits executor.Limits
		python string
	}{
		"memory": {executor.Limits{MemoryBytes: 100 << 20}, "x = bytearray(400 << 20)"},
		"processes": {executor.Limits{PIDs: 12}, `
import os, time
for n in range(100):
    if os.fork() == 0: time.sleep(300)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, limit := range []executor.Limits{{}, c.limits} {
				b := isolated(t, "exec /usr/bin/python3 -c '"+c.python+"'")
				b.start.Limits = limits.Plan("inside-"+name+"-"+strconv.Itoa(os.Getpid())+"-"+filepath.Base(b.dir), limit)
				b.launch()
				exit, found := b.ends()
				require.True(t, found)
				require.Empty(t, exit.Failure)
				require.Equal(t, limit == executor.Limits{}, exit.Code == 0, "%+v %s", exit, b.log())
			}
		})
	}
}
