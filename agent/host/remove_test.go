package host

import (
	"bytes"
	"log/slog"
	"net/http"
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
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

func TestWork_remove_deletesCgroup(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	h := &Host{cfg: Config{Data: t.TempDir()}, holder: boundary.Detect("/sys/fs/cgroup", string(own))}
	w := bareWork(h, executor.Key{WorkID: "wrk_group", Generation: 1, Fence: 1}, t.TempDir())
	plan := h.holder.Plan(w.groupName(), executor.Limits{})
	require.NoError(t, plan.Create())
	require.NoError(t, w.remove())
	require.NoDirExists(t, w.dir)
	for _, group := range plan.Groups {
		require.NoDirExists(t, group)
	}
}

// hostileTree creates folders that os.RemoveAll does not remove for an ordinary user with few open files. It returns
// their top folder, and a file outside of it that must remain.
func hostileTree(t *testing.T) (top, kept string) {
	t.Helper()
	base := t.TempDir()
	top, kept = filepath.Join(base, "top"), filepath.Join(base, "outside", "kept")
	for _, name := range []string{"top/none/inner", "top/cache/module@v1/deep", "top/many", "outside"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, name), 0o700))
	}
	for n := range 1500 {
		require.NoError(t, os.WriteFile(filepath.Join(top, "many", strconv.Itoa(n)), nil, 0o400))
	}
	for _, path := range []string{kept, filepath.Join(top, "cache/module@v1/deep/file"), filepath.Join(top, ".moved-0")} {
		require.NoError(t, os.WriteFile(path, nil, 0o400))
	}
	require.NoError(t, os.Symlink(filepath.Dir(kept), filepath.Join(top, "link")))
	require.NoError(t, os.Symlink(kept, filepath.Join(top, "none", "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(top, "none", "pipe"), 0o600))
	for _, name := range []string{"none/inner", "none"} { // in this order: the inner folder cannot be reached afterwards
		require.NoError(t, os.Chmod(filepath.Join(top, name), 0))
	}
	for _, name := range []string{"cache/module@v1/deep", "cache/module@v1", "cache"} {
		require.NoError(t, os.Chmod(filepath.Join(top, name), 0o555))
	}
	at, err := os.OpenRoot(top)
	require.NoError(t, err)
	for range 300 {
		require.NoError(t, at.Mkdir("d", 0o700))
		next, err := at.OpenRoot("d")
		require.NoError(t, err)
		require.NoError(t, at.Close())
		at = next
	}
	require.NoError(t, at.Close())
	return top, kept
}

func TestRemoveTree(t *testing.T) {
	t.Parallel()
	top, kept := hostileTree(t)
	require.NoError(t, localfile.RemoveTree(top))
	require.NoDirExists(t, top)
	require.FileExists(t, kept)
	require.NoError(t, localfile.RemoveTree(top), "a folder that does not exist must count as removed")
	require.NoError(t, localfile.RemoveTree(filepath.Join(top, "below")))
	require.NoError(t, os.Symlink(filepath.Dir(kept), top))
	require.NoError(t, localfile.RemoveTree(top))
	require.FileExists(t, kept)
	require.ErrorContains(t, localfile.RemoveTree(filepath.Join(kept, "below")), "not a directory")
}

// The folder foreignFolder names belongs to another user, so that it cannot be removed.
const foreignFolder = "TEST_FOREIGN_FOLDER"

// The agent must start even if it cannot remove what is left of a work.
func TestNew_leftoverFolders(t *testing.T) {
	t.Parallel()
	top, _ := hostileTree(t)
	data := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, "works"), 0o700))
	leftover := filepath.Join(data, "works", removing+"wrk-1-1")
	require.NoError(t, os.Rename(top, leftover))
	foreign := os.Getenv(foreignFolder)
	if foreign != "" {
		inside := filepath.Join(data, "works", removing+"foreign")
		require.NoError(t, os.Rename(foreign, inside))
		defer func() { require.NoError(t, os.Rename(inside, foreign)) }()
	}
	var log bytes.Buffer
	_, err := New(Config{Data: data, Exec: []string{"false"}}, Deps{HTTP: &http.Client{}, Clock: clock.Real(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.NoDirExists(t, leftover)
	require.Equal(t, foreign != "", strings.Contains(log.String(), "cannot remove the folder of an incomplete work"), log.String())
}

// TestRemoval_asOrdinaryUser runs the tests of this file again as an ordinary user with few open files. It needs root to
// change the user.
func TestRemoval_asOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return
	}
	dir := t.TempDir()
	program, foreign := filepath.Join(dir, "test"), filepath.Join(dir, "foreign")
	require.NoError(t, exec.CommandContext(t.Context(), "cp", os.Args[0], program).Run()) // cp, because other tests start children meanwhile
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		require.NoError(t, os.Chmod(path, 0o755))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(foreign, "owned"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "owned", "file"), nil, 0o600))
	const nobody = 65534
	for _, path := range []string{dir, foreign} {
		require.NoError(t, os.Chown(path, nobody, nobody))
	}
	cmd := exec.CommandContext(t.Context(), "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
		"sh", "-c", `ulimit -n 200 && exec "$0" "$@"`, program, "-test.run=^(TestRemoveTree|TestNew_leftoverFolders)$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir, "HOME=" + dir, foreignFolder + "=" + foreign}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: TestNew_leftoverFolders")
}

// The parent of the work's folder is first a file, so that the work cannot be removed.
func TestWork_keep_removesAgain(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	parent := filepath.Join(t.TempDir(), "works")
	require.NoError(t, os.WriteFile(parent, nil, 0o600))
	h := &Host{deps: Deps{Clock: clk, Log: slog.New(slog.DiscardHandler)}, changes: make(chan struct{}, 1)}
	h.restart = clock.Backoff{Base: time.Second, Max: time.Minute, Jitter: func() float64 { return 0 }}
	w := bareWork(h, executor.Key{WorkID: "w"}, filepath.Join(parent, "w"))
	w.seen.Phase = executor.PhaseExited
	close(w.leaving)
	go w.keep(t.Context())
	for range 2 {
		require.NoError(t, clk.Await(t.Context(), 1))
		require.False(t, closed(w.removed))
		clk.Advance(time.Minute)
	}
	require.NoError(t, clk.Await(t.Context(), 1))
	require.NoError(t, os.Remove(parent))
	require.NoError(t, os.Mkdir(parent, 0o700))
	clk.Advance(time.Minute)
	<-w.removed
}
