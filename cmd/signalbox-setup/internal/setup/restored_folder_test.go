package setup

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// dataFolder returns a data folder that looks like one with a database.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "postgres", "data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres", "data", "PG_VERSION"), []byte("18\n"), 0o600))
	return dir
}

func restore(t *testing.T, dir string) error {
	t.Helper()
	return Restored{Data: dir, Out: io.Discard}.Run(t.Context())
}

func TestRestored_Run_folderWithoutDatabase(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "postgres", "data", "PG_VERSION")))
	require.ErrorContains(t, restore(t, dir), "has no complete database")
	empty := t.TempDir()
	require.ErrorContains(t, restore(t, empty), "has no database")
	require.ErrorContains(t, restore(t, filepath.Join(empty, "missing")), "has no database")
	left, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, left, "the command must not create a database")
}

// signalboxd may have been started again, for example by systemd, on a database that is about to be settled.
func TestRestored_Run_folderInUse(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	lock, err := localfile.LockFolder(filepath.Join(dir, "lock"))
	require.NoError(t, err)
	require.ErrorContains(t, restore(t, dir), "systemctl stop signalboxd")
	require.NoError(t, lock.Close())
}

// If the superuser settled the folder of another user, signalboxd could not read its own database afterwards.
func TestRestored_Run_folderOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		require.ErrorContains(t, (&Restored{Data: "/usr"}).checkFolder(), "belongs to the user")
		return
	}
	dir := dataFolder(t)
	require.NoError(t, os.Chown(dir, 65534, 65534))
	require.ErrorContains(t, restore(t, dir), "belongs to the user with the id 65534")
}
