package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/pgtest/pgserver/uselock"
)

func serverOwner(t *testing.T, dir string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "owner.lock"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	require.NoError(t, err)
	return pid
}

// TestShared_replacesKilledOwner uses a separate server in its own folder. After pgserver was killed,
// the next test must start a new server. If pgserver is terminated, it must leave no data.
func TestShared_replacesKilledOwner(t *testing.T) {
	if os.Getenv("TEST_DATABASE_URL") != "" {
		t.Setenv("TEST_DATABASE_URL", "")
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := folder()
	require.NoError(t, err)
	use := func(t *testing.T) {
		t.Helper()
		var one int
		require.NoError(t, New(t, Schema{Name: "jobs"}).Pool("jobs").QueryRow(t.Context(), `SELECT 1`).Scan(&one))
	}
	t.Run("first", use)
	first := serverOwner(t, dir)
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	t.Run("second", use)
	second := serverOwner(t, dir)
	require.NotEqual(t, first, second)
	require.NoError(t, syscall.Kill(second, syscall.SIGTERM))
	require.Eventually(t, func() bool { return !uselock.Owned(dir) }, time.Minute, 20*time.Millisecond)
	_, err = os.Stat(filepath.Join(dir, uselock.URLFile))
	require.ErrorIs(t, err, os.ErrNotExist)
	raw, err := os.ReadFile(filepath.Join(dir, "server", "data", "postmaster.pid"))
	require.ErrorIs(t, err, os.ErrNotExist, fmt.Sprintf("the server must have stopped: %s", raw))
}

func TestTempDir_memoryByDefault(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	require.Equal(t, dir, TempDir())
	require.False(t, roomy("/proc"))
	require.False(t, roomy(dir+"/absent"))
	t.Setenv("TMPDIR", "")
	if roomy(memory) {
		require.Equal(t, memory, TempDir())
	} else {
		require.Equal(t, os.TempDir(), TempDir())
	}
}

func TestFolder_rejectsOpenPermissions(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	theirs := filepath.Join(tmp, "signalbox-pgserver-"+strconv.Itoa(os.Geteuid()))
	require.NoError(t, os.Mkdir(theirs, 0o700))
	require.NoError(t, os.Chmod(theirs, 0o755))
	_, err := folder()
	require.ErrorContains(t, err, "not a private folder")
}
