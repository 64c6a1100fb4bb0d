package localfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

func TestWriteJSON_roundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.json")
	type value struct{ A int }
	for _, want := range []value{{1}, {2}} {
		require.NoError(t, localfile.WriteJSON(path, want, localfile.PrivateMode))
		var got value
		require.NoError(t, localfile.ReadJSON(path, &got))
		require.Equal(t, want, got)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, localfile.PrivateMode, info.Mode().Perm())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func TestWriteAndRead_errors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var into any
	require.ErrorIs(t, localfile.ReadJSON(filepath.Join(dir, "none"), &into), fs.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "half"), []byte(`{"a":`), 0o600))
	require.ErrorContains(t, localfile.ReadJSON(filepath.Join(dir, "half"), &into), "decode half")
	require.Error(t, localfile.WriteJSON(filepath.Join(dir, "x"), make(chan int), localfile.PrivateMode))
	require.Error(t, localfile.Write(filepath.Join(dir, "none", "x"), nil, localfile.PrivateMode))
	require.Error(t, localfile.SyncDir(filepath.Join(dir, "none")))
	// A path that cannot be replaced keeps its content.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "taken", "x"), 0o700))
	require.Error(t, localfile.Write(filepath.Join(dir, "taken"), nil, localfile.PrivateMode))
	require.DirExists(t, filepath.Join(dir, "taken", "x"))
}

// A process that was killed may have left the temporary file, or an older version may have created it with another mode.
func TestWrite_narrowsLeftTemporaryFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.json")
	require.NoError(t, os.WriteFile(path+".new", []byte("half"), 0o600))
	require.NoError(t, os.Chmod(path+".new", 0o666))
	require.NoError(t, localfile.Write(path, []byte("x"), localfile.PrivateMode))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, localfile.PrivateMode, info.Mode().Perm())
}
