package shim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// opening opens 6,000 files with twelve processes. The processes then wait if the script has an argument.
// Each process stays below 1,024 files, the usual limit of a process.
const opening = `exec /usr/bin/python3 -c '
import os, signal, sys
for n in range(11):
    if os.fork() == 0: break
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(500)]
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if len(sys.argv) > 1: signal.pause()
' `

func TestOwner_openFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bound int64
		text  string
		want  shim.Cause
	}{
		"no limit":     {0, opening, ""},
		"within limit": {100_000, opening, ""},
		"above limit":  {4500, opening + "wait", shim.CauseFiles},
	} {
		for place, start := range map[string]func(*testing.T, string) *harness{"isolated": isolated, "without boundary": script} {
			t.Run(name+" "+place, func(t *testing.T) {
				t.Parallel()
				b := start(t, c.text)
				b.start.Limits.Files = c.bound
				b.launch()
				exit, found := b.ends()
				require.True(t, found)
				require.Equal(t, c.want, exit.Cause, "%+v %s", exit, b.log())
				require.Equal(t, c.want != "", exit.Message != "")
			})
		}
	}
}

// A mapping keeps a file open without a descriptor. Eight mappings of one file may count as one.
// The job calls mmap of libc because Python's own mapping keeps a descriptor, and the number of descriptors is limited.
func TestOwner_mappedFiles(t *testing.T) {
	t.Parallel()
	b := isolated(t, `exec /usr/bin/python3 -c '
import ctypes, mmap, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for n in range(25000):
    file = os.open("/usr/bin/python3", os.O_RDONLY)
    at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, file, 4096 * (n % 2))
    assert at not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    os.close(file)
signal.pause()'`)
	b.start.Limits.Files = 2400
	b.launch()
	exit, found := b.ends()
	require.True(t, found)
	require.Equal(t, shim.CauseFiles, exit.Cause, "%+v %s", exit, b.log())
}

// A work that opens too many files after a stop was requested does not keep the rest of its grace period.
func TestOwner_openFilesDuringGrace(t *testing.T) {
	t.Parallel()
	b := script(t, `exec /usr/bin/python3 -c '
import os, signal
def stop(*_):
    global files
    for n in range(7):
        if os.fork() == 0: break
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(500)]
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True: signal.pause()'`)
	b.start.Limits.Files = 3000
	b.launch()
	b.awaitLine("ready")
	require.NoError(t, b.Stop(b.dir, time.Hour))
	exit, found := b.ends()
	require.True(t, found)
	require.True(t, exit.Stopped, "%+v", exit)
	require.Empty(t, exit.Cause, "the first request to stop is the cause")
}
