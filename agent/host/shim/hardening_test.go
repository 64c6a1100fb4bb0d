package shim_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// TestIsolated_limitsOfFiles checks that a work has the limit of open files. This machine may permit fewer open files.
func TestIsolated_limitsOfFiles(t *testing.T) {
	t.Parallel()
	var own unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &own))
	const most = 65_536 // see TestBoundFiles
	b := isolated(t, "ulimit -Hn")
	b.launch()
	_, found := b.ends()
	require.True(t, found)
	require.Equal(t, strconv.FormatUint(min(own.Max, most), 10), strings.TrimSpace(b.log()))
}

// TestIsolated_coreLimit checks that the limit of core files is 1, and that a work cannot change it. With any other
// limit, the kernel may start a program of the node for a core dump. Programs such as gpg end if a change fails.
func TestIsolated_coreLimit(t *testing.T) {
	t.Parallel()
	b := isolated(t, "")
	b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", fmt.Sprintf(`
import ctypes, os, resource
call = ctypes.CDLL(None).syscall
setrlimit, prlimit, core = %d, %d, %d
def pair(): return (ctypes.c_uint64 * 2)(0, 0)
def now():
    limit = pair(); assert call(prlimit, 0, core, None, limit) == 0
    return list(limit)
print(now(), resource.getrlimit(core), [line.split()[4:6] for line in open("/proc/self/limits") if "core" in line][0])
print(call(setrlimit, core, pair()), now(), call(prlimit, 0, core, pair(), None), now(), call(prlimit, os.getpid(), core, pair(), None), now())
resource.setrlimit(core, (0, 0)); print(now())
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128)); print(resource.getrlimit(resource.RLIMIT_NOFILE))
call(setrlimit, resource.RLIMIT_NOFILE, (ctypes.c_uint64 * 2)(32, 64)); print(resource.getrlimit(resource.RLIMIT_NOFILE))
`, unix.SYS_SETRLIMIT, unix.SYS_PRLIMIT64, unix.RLIMIT_CORE)}
	b.launch()
	_, found := b.ends()
	require.True(t, found)
	require.Equal(t, "[1, 1] (1, 1) ['1', '1']\n0 [1, 1] 0 [1, 1] 0 [1, 1]\n[1, 1]\n(64, 128)\n(32, 64)\n", b.log())
}

func TestIsolated_mounts(t *testing.T) {
	t.Parallel()
	b := isolated(t, "cat /proc/self/mountinfo; test -e /proc/1/status && echo init")
	b.start.Isolation.SharedMemory = 48 << 20
	b.launch()
	_, found := b.ends()
	require.True(t, found)
	seen := map[string]string{}
	for line := range strings.SplitSeq(b.log(), "\n") {
		if fields := strings.Fields(line); len(fields) > 5 {
			seen[fields[4]] = line
		}
	}
	for _, path := range []string{b.start.Dir, "/tmp", "/usr", "/proc", "/dev/shm", "/"} {
		require.Contains(t, seen[path], "nosuid", path)
		require.Contains(t, seen[path], "nodev", path)
	}
	require.Regexp(t, "hidepid=(2|invisible)", seen["/proc"])
	require.Contains(t, seen["/dev/shm"], "size=49152k")
	if os.Getuid() == 0 {
		require.NotContains(t, b.log(), "\ninit", "the work must not see the first process, which belongs to root")
	}
}

// TestIsolated_keysOfSession launches a command from a thread whose session keyring contains a key. The command
// searches its own session keyring for that key. If the test runs as root, the command also searches /proc/keys. For
// other users, that file also lists keys of other sessions of the same user.
func TestIsolated_keysOfSession(t *testing.T) {
	t.Parallel()
	const name = "signalbox-test-key"
	for _, inside := range []bool{false, true} {
		b := script(t, "")
		if inside {
			b.isolate(testUser)
		}
		b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", fmt.Sprintf(`
import ctypes
session, search = -3, 10
found = ctypes.CDLL(None).syscall(%d, search, session, b"user", b"%s", 0) > 0
if "%t" == "true":
    found = found or "%s" in open("/proc/keys").read()
print("found" if found else "nothing")`, unix.SYS_KEYCTL, name, os.Getuid() == 0, name)}
		launched := make(chan error)
		go func() {
			runtime.LockOSThread() // for good: the thread ends with this goroutine
			_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
			if err == nil {
				_, err = unix.AddKey("user", name, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
			}
			if err == nil {
				err = b.Launch(b.dir, b.start)
			}
			launched <- err
		}()
		require.NoError(t, <-launched)
		_, found := b.ends()
		require.True(t, found)
		require.Equal(t, map[bool]string{false: "found", true: "nothing"}[inside], strings.TrimSpace(b.log()), "with the boundary: %t", inside)
	}
}

// TestIsolated_fileTables tries to create threads whose files the shim would not count, and sockets that no packet filter sees.
func TestIsolated_fileTables(t *testing.T) {
	t.Parallel()
	const denied = "unshare close_range clone socketpair"
	for _, inside := range []bool{false, true} {
		b := script(t, "")
		if inside {
			b.isolate(testUser)
		}
		b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", fmt.Sprintf(`
import ctypes, errno, socket, threading
call = ctypes.CDLL(None, use_errno=True).syscall
def refused(*args):
    call(*args)
    return ctypes.get_errno() == errno.EPERM
threading.Thread(target=lambda: None).start() # the threads of libraries share the file table
names = []
if refused(%d, %d): names.append("unshare")
if refused(%d, 1000, 1001, %d): names.append("close_range")
# Without CLONE_SIGHAND the kernel refuses a thread with EINVAL, so none is created outside of the boundary.
if refused(%d, %d, 0, 0, 0, 0): names.append("clone")
try: socket.socketpair(%d, socket.SOCK_STREAM)
except PermissionError: names.append("socketpair")
except OSError: pass
socket.socketpair()
print(" ".join(names) or "none")`, unix.SYS_UNSHARE, unix.CLONE_FILES, unix.SYS_CLOSE_RANGE, unix.CLOSE_RANGE_UNSHARE,
			unix.SYS_CLONE, unix.CLONE_THREAD, unix.AF_TIPC)}
		b.launch()
		_, found := b.ends()
		require.True(t, found)
		require.Equal(t, map[bool]string{false: "none", true: denied}[inside], strings.TrimSpace(b.log()), "with the boundary: %t", inside)
	}
}

// TestIsolated_connections opens more connections than a work may have. Only a filter by user limits them. A work in
// its own network namespace has a separate table of connections.
func TestIsolated_connections(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return
	}
	b := script(t, "")
	b.isolate(238_000)
	b.start.Isolation.Network = boundary.Network{Kind: boundary.Filtered}
	b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", `
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
server = socket.create_server(("127.0.0.1", 0)); opened = []
try:
    while len(opened) < 2 * 5000: opened += [socket.create_connection(server.getsockname(), 5), server.accept()[0]]
except OSError: pass
print(len(opened) // 2)`}
	b.launch()
	_, found := b.ends()
	require.True(t, found)
	require.Equal(t, "4096\n", b.log(), connectionTable(t))
}

// connectionTable describes how full the kernel's table of connections is. If it is full, all connections of the machine
// fail, also if another program has filled it.
func connectionTable(t *testing.T) string {
	t.Helper()
	count, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	require.NoError(t, err)
	most, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	require.NoError(t, err)
	return "the kernel's table has " + strings.TrimSpace(string(count)) + " of " + strings.TrimSpace(string(most)) + " connections"
}

// TestIsolated_connectionRate opens and closes connections without a pause. A connection that has ended stays in the
// kernel's table for two minutes, but no longer counts as open. However fast the machine is, the work is delayed, not
// refused.
func TestIsolated_connectionRate(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return
	}
	b := script(t, "")
	b.isolate(239_000)
	b.start.Isolation.Network = boundary.Network{Kind: boundary.Filtered}
	b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", `
import socket, time
server = socket.create_server(("127.0.0.1", 0)); begun = time.monotonic(); opened = 0
try:
    while opened < 30000:
        client = socket.create_connection(server.getsockname(), 0.5); opened += 1
        server.accept()[0].close(); client.close()
except TimeoutError: pass
print(2048 <= opened <= 2048 + 500 * (time.monotonic() - begun + 1), opened)`}
	b.launch()
	_, found := b.ends()
	require.True(t, found)
	require.Regexp(t, "^True ", b.log(), connectionTable(t))
}
