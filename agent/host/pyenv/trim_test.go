package pyenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// place creates a complete environment of about 1000 bytes. The works use it, and its last request has the given age.
func place(t *testing.T, b *Builder, name string, age time.Duration, works ...string) string {
	t.Helper()
	dir := filepath.Join(b.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.MkdirAll(dir+usesSuffix, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "python"), []byte(strings.Repeat("x", 1000)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, marker), nil, 0o600))
	require.NoError(t, os.WriteFile(dir+lockSuffix, nil, 0o600))
	at := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(dir+lockSuffix, at, at))
	for _, work := range works {
		require.NoError(t, use(dir, work))
	}
	return dir
}

func TestBuilder_trim_leastRecentlyRequestedFirst(t *testing.T) {
	t.Parallel()
	b := NewBuilder(t.TempDir(), nil, clock.Real(), nil)
	b.Limit(3500, nil)
	running := t.TempDir()
	oldest := place(t, b, "oldest", 9*time.Hour, running, filepath.Join(t.TempDir(), "ended"))
	ended := place(t, b, "ended", 8*time.Hour, filepath.Join(t.TempDir(), "ended"))
	unused := place(t, b, "unused", 7*time.Hour)
	recent := place(t, b, "recent", time.Hour)
	built := place(t, b, "built", 10*time.Hour)
	earlier := place(t, b, "earlier", 11*time.Hour)
	require.NoError(t, os.RemoveAll(earlier+usesSuffix))

	freed, err := b.trim(built)
	require.NoError(t, err)
	require.EqualValues(t, 3000, freed)
	require.DirExists(t, oldest, "an environment that a work uses must be kept")
	require.DirExists(t, built, "the environment that was just built must be kept")
	require.DirExists(t, earlier, "an environment that an earlier version may use must be kept")
	for _, dir := range []string{ended, unused, recent} {
		require.NoDirExists(t, dir)
		require.NoDirExists(t, dir+usesSuffix)
		require.NoFileExists(t, dir+lockSuffix)
	}

	b.Limit(0, nil)
	freed, err = b.trim(built)
	require.NoError(t, err)
	require.Zero(t, freed, "without a limit, everything must be kept")
	b.Limit(1, nil)
	require.NoError(t, os.RemoveAll(running))
	freed, err = b.trim(built)
	require.NoError(t, err)
	require.EqualValues(t, 1000, freed, "the environment must be removed after its work has ended")
}

func TestBuilder_trim_skippedDuringOtherBuild(t *testing.T) {
	t.Parallel()
	b := NewBuilder(t.TempDir(), nil, clock.Real(), nil)
	b.Limit(1, nil)
	dir := place(t, b, "env", time.Hour)
	other := NewBuilder(b.dir, nil, clock.Real(), nil)
	release, err := other.hold(t.Context())
	require.NoError(t, err)
	freed, err := b.trim("")
	require.NoError(t, err)
	require.Zero(t, freed, "nothing may be removed while another builder may be about to use it")
	require.DirExists(t, dir)
	release()
	freed, err = b.trim("")
	require.NoError(t, err)
	require.EqualValues(t, 1000, freed)
}

func TestBuilder_trim_removesWhatBuildsLeft(t *testing.T) {
	t.Parallel()
	b := NewBuilder(t.TempDir(), nil, clock.Real(), nil)
	dir := place(t, b, "env", time.Hour)
	killed, removed := filepath.Join(b.dir, "killed.build-123"), filepath.Join(b.dir, "removed.build-removed")
	for _, left := range []string{killed, removed} {
		require.NoError(t, os.MkdirAll(filepath.Join(left, "venv", "bin"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(left, "venv", marker), nil, 0o600))
	}
	failed := filepath.Join(b.dir, "failed"+lockSuffix)
	require.NoError(t, os.WriteFile(failed, nil, 0o600))

	release, err := NewBuilder(b.dir, nil, clock.Real(), nil).hold(t.Context())
	require.NoError(t, err)
	_, err = b.trim("")
	require.NoError(t, err)
	require.DirExists(t, killed, "the folder of a build that may be running must be kept")
	require.FileExists(t, failed, "a build lock that a builder may have opened must be kept")
	release()

	freed, err := b.trim("")
	require.NoError(t, err)
	require.Zero(t, freed, "only environments and wheels count")
	require.NoDirExists(t, killed)
	require.NoDirExists(t, removed)
	require.NoFileExists(t, failed)
	require.DirExists(t, dir)
	require.FileExists(t, dir+lockSuffix, "the build lock of an environment must be kept")
	require.FileExists(t, filepath.Join(b.dir, trimLock))
}
