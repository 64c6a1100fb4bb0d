package shim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

func TestFreeze_onlyTheseWorks(t *testing.T) {
	t.Parallel()
	works := t.TempDir()
	var all []*harness
	for _, name := range []string{"wrk_1", "wrk_2"} {
		b := script(t, "echo begun; while :; do sleep 0.02; done")
		b.dir = filepath.Join(works, name, "run")
		require.NoError(t, os.MkdirAll(b.dir, 0o700))
		b.launch()
		b.awaitLine("begun")
		all = append(all, b)
	}
	n, err := shim.Freeze(works, func(work string) bool { return work == "wrk_2" })
	require.NoError(t, err)
	require.Positive(t, n)
	frozen, err := shim.Frozen(works)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"wrk_2": true}, frozen)
	for _, b := range all {
		require.NoError(t, b.Stop(b.dir, 0))
		_, found := b.ends()
		require.True(t, found)
	}
	frozen, err = shim.Frozen(works)
	require.NoError(t, err)
	require.Empty(t, frozen)
}

// TestWritten checks that Written counts the bytes of short-lived processes. A file system in memory has no such count.
func TestWritten(t *testing.T) {
	t.Parallel()
	works := t.TempDir()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(works, &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		t.Log("NOT TESTED: the folder of the test is in memory")
		return
	}
	b := script(t, "until [ -e go ]; do sleep 0.01; done; n=0; while [ $n -lt 10 ]; do n=$((n+1)); head -c 100000 /dev/zero >> grows; done; echo wrote; sleep 300")
	b.dir, b.start.Dir = filepath.Join(works, "wrk_1", "run"), filepath.Join(works, "wrk_1")
	require.NoError(t, os.MkdirAll(b.dir, 0o700))
	b.launch()
	before, err := shim.Written(works)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(b.start.Dir, "go"), nil, 0o600))
	b.awaitLine("wrote")
	after, err := shim.Written(works)
	require.NoError(t, err)
	require.GreaterOrEqual(t, after["wrk_1"]-before["wrk_1"], int64(1_000_000))
	require.NoError(t, b.Stop(b.dir, 0))
	_, found := b.ends()
	require.True(t, found)
}

func TestFreeze_everyProcessOfWorks(t *testing.T) {
	t.Parallel()
	b := script(t, "n=0; (while :; do n=$((n+1)); echo x >> grows; sleep 0.01; done) & wait")
	works := t.TempDir()
	b.dir = filepath.Join(works, "wrk_1", "run")
	require.NoError(t, os.MkdirAll(b.dir, 0o700))
	b.launch()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(b.start.Dir, "grows"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	require.Eventually(t, func() bool { return size() > 0 }, time.Minute, time.Millisecond)
	n, err := shim.Freeze(works, func(string) bool { return true })
	require.NoError(t, err)
	require.Positive(t, n)
	frozen := size()
	n, err = shim.Freeze(works, func(string) bool { return true })
	require.NoError(t, err)
	require.Zero(t, n, "no process may be left to freeze")
	require.Equal(t, frozen, size())
	n, err = shim.Thaw(works)
	require.NoError(t, err)
	require.Positive(t, n)
	require.Eventually(t, func() bool { return size() > frozen }, time.Minute, time.Millisecond)
	_, err = shim.Freeze(works, func(string) bool { return true })
	require.NoError(t, err)
	require.NoError(t, b.Stop(b.dir, 0))
	exit, found := b.ends()
	require.True(t, found && exit.Stopped, "a frozen work must stop when a stop is requested")
}

// A process that creates a child with vfork waits in the kernel until the child runs its program. If the child is
// stopped before that, the parent cannot stop either.
func TestFreeze_parentThatWaitsForStoppedChild(t *testing.T) {
	t.Parallel()
	const program = `$| = 1; if (syscall(%d, %d, 0, 0, 0, 0) == 0) { print "child\n" } sleep 300`
	b := script(t, "exec perl -e '"+fmt.Sprintf(program, unix.SYS_CLONE, unix.CLONE_VFORK|int(syscall.SIGCHLD))+"'")
	works := t.TempDir()
	b.dir = filepath.Join(works, "wrk_1", "run")
	require.NoError(t, os.MkdirAll(b.dir, 0o700))
	b.launch()
	b.awaitLine("child")
	all := func(string) bool { return true }
	n, err := shim.Freeze(works, all)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 2)
	require.Less(t, n, 50, "the parent must not be stopped again and again")
	n, err = shim.Freeze(works, all)
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = shim.Thaw(works)
	require.NoError(t, err)
	require.Equal(t, 2, n, "the parent must not stop when its child has continued")
	frozen, err := shim.Frozen(works)
	require.NoError(t, err)
	require.Empty(t, frozen)
	require.NoError(t, b.Stop(b.dir, 0))
	_, found := b.ends()
	require.True(t, found)
}
