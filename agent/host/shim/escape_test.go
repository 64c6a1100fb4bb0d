package shim_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// escape is a way by which a work could leave its boundary. Its Python code raises OSError if the way is closed.
type escape struct {
	code string
	// root is true for a way that exists only if the agent runs as root, because it uses what only root may do.
	root bool
}

// escapes returns the escapes to try. Names in braces are replaced by the paths and numbers of the targets.
func escapes() map[string]escape {
	return map[string]escape{
		"key of the node":                 {code: `open("{host}/node.pem").read()`},
		"list of the agent's files":       {code: `os.listdir("{host}")`},
		"file through another name":       {code: `os.link("{host}/node.pem", "{dir}/work/stolen"); open("{dir}/work/stolen").read()`},
		"file through a symbolic link":    {code: `os.symlink("{host}/node.pem", "{dir}/work/link"); open("{dir}/work/link").read()`},
		"start file of its shim":          {code: `open("{dir}/start.json").read()`},
		"change of its start file":        {code: `open("{dir}/start.json", "r+").close()`},
		"file of another work":            {code: `open("{other}/work/secret").read()`},
		"list of another work's files":    {code: `os.listdir("{other}/work")`},
		"environment of another work":     {code: `search("environ", b"TOKEN=of-the-other")`},
		"command line of another work":    {code: `search("cmdline", b"argument-of-the-other")`},
		"files by another work's process": {code: `os.listdir("/proc/{pid}/root{other}/work")`},
		"memory map of another work":      {code: `open("/proc/{pid}/maps").read(1)`},
		"signal to another work":          {code: `os.kill({pid}, 0)`},
		"ptrace of another work":          {code: `call(ptrace, PTRACE_SEIZE, {pid}, 0, 0)`},
		"ptrace of the shim":              {code: `call(ptrace, PTRACE_SEIZE, {shim}, 0, 0)`},
		"ptrace of its own child":         {code: `call(ptrace, PTRACE_SEIZE, child(), 0, 0)`},
		"memory of the agent":             {code: `open("/proc/{agent}/mem", "rb").close()`},
		"signal to the agent":             {code: `os.kill({agent}, 0)`},
		"file in shared memory":           {code: `open("{shm}").read()`},
		"segment of shared memory":        {code: `call(shmget, {segment}, 0, 0)`},
		"socket of the database":          {code: `socket.socket(socket.AF_UNIX).connect("{host}/socket")`},
		"change of a cached file":         {code: `open("{cache}/object", "a").write("x")`},
		"removal of a cached file":        {code: `os.rename("{cache}/object", "{cache}/renamed"); os.rename("{cache}/renamed", "{cache}/object")`},
		"new file in a cache":             {code: `open("{cache}/new", "w").close()`},
		"mode of a cached file":           {code: `os.chmod("{cache}/object", 0o600)`},
		"user namespace":                  {code: `call(unshare, CLONE_NEWUSER, 0, 0, 0)`},
		"user namespace of a child":       {code: `call(clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0) or os._exit(0)`},
		"folder of another user's files":  {code: `os.listdir("{home}")`},
		"list of the machine's processes": {code: `search("stat", b"{agent} (")`},
		"shadow file":                     {code: `open("/etc/shadow").read()`, root: true},
		"log of the kernel":               {code: `open("/dev/kmsg", "rb").close()`, root: true},
		"new device":                      {code: `os.mknod("{dir}/work/disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0))`, root: true},
		"mount":                           {code: `call(unshare, CLONE_NEWNS, 0, 0, 0)`, root: true},
		"other cgroup":                    {code: `open("/sys/fs/cgroup/" + ("cgroup.procs" if os.path.exists("/sys/fs/cgroup/cgroup.procs") else "pids/cgroup.procs"), "w").write("0")`, root: true},
		"another user":                    {code: `os.setuid(65534)`, root: true},
		"owner of a file":                 {code: `os.chown("{dir}/work", 65534, 65534)`, root: true},
		"kernel settings":                 {code: `open("/proc/sys/kernel/core_pattern", "a").close()`, root: true},
		"file by its handle":              {code: `handle("{dir}/work")`, root: true},
		"capability of its own":           {code: `os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))`, root: true},
	}
}

const escapeTools = `
import ctypes, os, signal, socket, stat, sys, glob, time
machine = os.uname().machine
unshare, clone, ptrace, shmget, name_to_handle_at = {"x86_64": (272, 56, 101, 29, 303), "aarch64": (97, 220, 117, 194, 264)}[machine]
CLONE_NEWUSER, CLONE_NEWNS, PTRACE_SEIZE, SIGCHLD = 0x10000000, 0x20000, 0x4206, 17
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args])
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def search(name, wanted):
    for path in glob.glob("/proc/[0-9]*/" + name):
        try:
            if wanted in open(path, "rb").read() and path.split("/")[2] != str(os.getpid()): return
        except OSError: pass
    raise OSError("no process has it")
def child():
    pid = os.fork()
    if pid == 0: time.sleep(300)
    return pid
def handle(path):
    buffer = (ctypes.c_uint * 64)(128)
    mount, name = ctypes.c_int(), ctypes.create_string_buffer(path.encode())
    call(name_to_handle_at, -100, ctypes.addressof(name), ctypes.addressof(buffer), ctypes.addressof(mount), 0)
try:
    exec(sys.argv[1])
except (OSError, IndexError) as e:
    print("closed:", e); sys.exit(1)
`

// targets creates the targets of the escapes: files of the agent and a work of another user. It returns the
// replacements for the names in braces.
func targets(t *testing.T) []string {
	t.Helper()
	host, cache := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(host, "node.pem"), []byte("key"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(cache, "object"), []byte("bytes"), 0o644))
	require.NoError(t, os.Chmod(cache, 0o755))
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(host, "socket"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	shared := filepath.Join("/dev/shm", "signalbox-test-"+strconv.Itoa(os.Getpid()))
	require.NoError(t, os.WriteFile(shared, []byte("shared"), 0o600))
	t.Cleanup(func() { _ = os.Remove(shared) })
	key := 0x51600000 + os.Getpid()
	segment, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) })

	other := script(t, "")
	other.start.Args = []string{"sh", "-c", "echo secret > secret; echo begun; while :; do sleep 0.05; done", "argument-of-the-other"}
	other.start.Env = append(other.start.Env, "TOKEN=of-the-other")
	require.NoError(t, os.Mkdir(filepath.Join(other.dir, "work"), 0o700))
	other.start.Dir = filepath.Join(other.dir, "work")
	other.launch()
	t.Cleanup(func() {
		_ = other.Stop(other.dir, 0)
		_, _, _ = other.Await(context.Background(), other.dir)
	})
	other.awaitLine("begun")
	r, err := other.Running(other.dir)
	require.NoError(t, err)
	home, err := os.UserHomeDir()
	if os.Getuid() != 0 || err != nil {
		home = host
	}
	return []string{
		"{host}", host, "{cache}", cache, "{other}", other.dir, "{pid}", strconv.Itoa(r.Command.PID), "{shim}", strconv.Itoa(r.Shim.PID),
		"{agent}", strconv.Itoa(os.Getpid()), "{shm}", shared, "{segment}", strconv.Itoa(key), "{home}", home,
	}
}

// TestEscapes tries each way out first without the boundary, where it must succeed, and then with the boundary, where
// it must fail. A way that cannot be tried at all is an error of the test.
func TestEscapes(t *testing.T) {
	t.Parallel()
	known := targets(t)
	for name, way := range escapes() {
		if way.root && os.Getuid() != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, inside := range []bool{false, true} {
				b := script(t, "")
				if inside {
					b.isolate(testUser)
					cache := known[3]
					b.start.Isolation.Binds = append(b.start.Isolation.Binds, boundary.Bind{Path: cache, Access: boundary.ReadOnly})
				} else {
					require.NoError(t, os.Mkdir(filepath.Join(b.dir, "work"), 0o700))
					b.start.Dir = filepath.Join(b.dir, "work")
				}
				code := strings.NewReplacer(append([]string{"{dir}", b.dir}, known...)...).Replace(way.code)
				b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", escapeTools, code}
				b.launch()
				exit, found := b.ends()
				require.True(t, found)
				require.Empty(t, exit.Failure)
				want := 0
				if inside {
					want = 1
				}
				require.Equal(t, want, exit.Code, "with the boundary: %t; signal %d; %s", inside, exit.Signal, b.log())
			}
		})
	}
}

func TestIsolated_descriptors(t *testing.T) {
	t.Parallel()
	b := isolated(t, "ls -l /proc/self/fd; grep -E 'Cap|NoNewPrivs|Seccomp:|Groups' /proc/self/status; id")
	b.launch()
	exit, _ := b.ends()
	require.Zero(t, exit.Code, b.log())
	for line := range strings.SplitSeq(b.log(), "\n") {
		if fd, to, ok := strings.Cut(line, " -> "); ok {
			output := strings.HasPrefix(to, "pipe:") && (strings.HasSuffix(fd, " 1") || strings.HasSuffix(fd, " 2"))
			require.True(t, output || to == "/dev/null" || strings.HasPrefix(to, "/proc/"), line)
		}
		if name, value, ok := strings.Cut(line, ":\t"); ok && strings.HasPrefix(name, "Cap") {
			require.Equal(t, "0000000000000000", value, name)
		}
	}
	require.Contains(t, b.log(), "NoNewPrivs:\t1")
	require.Contains(t, b.log(), "Seccomp:\t2")
	if os.Getuid() == 0 {
		require.Contains(t, b.log(), fmt.Sprintf("uid=%d(work) gid=%d(work) groups=%d(work)\n", testUser, testUser, testUser))
	}
}

// TestAsOrdinaryUser runs TestEscapes and the tests of isolated works again as an ordinary user. It needs root to
// change the user.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // the tests already run as an ordinary user
	}
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "test")
	// Let cp write the program. If this process wrote it, a child that another test starts meanwhile could inherit the
	// open file, and the kernel executes no file that is open for writing.
	require.NoError(t, exec.CommandContext(t.Context(), "cp", os.Args[0], program).Run())
	require.NoError(t, os.Chmod(program, 0o755))
	const nobody = 65534
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		require.NoError(t, os.Chmod(path, 0o755))
	}
	require.NoError(t, os.Chown(dir, nobody, nobody))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, exec.CommandContext(ctx, "sh", "-c", `cp "$0"* "$1"`, pasta(t), dir).Run())
	// The tests need a device /dev/net/tun that every user can open, as on most systems. Only their process sees the
	// one created here.
	tunnel := filepath.Join(dir, "tun")
	require.NoError(t, unix.Mknod(tunnel, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 200))))
	require.NoError(t, os.Chmod(tunnel, 0o666))
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", `mount --bind "$0" /dev/net/tun && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`,
		tunnel, program, "-test.run=^(TestEscapes|TestIsolated)", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir + ":/usr/bin:/bin:/usr/sbin:/sbin", "TMPDIR=" + dir, "HOME=" + dir}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: TestEscapes/key_of_the_node")
	require.Contains(t, string(output), "--- PASS: TestIsolated_ownNetworkServes")
}
