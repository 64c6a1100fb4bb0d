package boundary_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

func TestFileBound_quarterOfTable(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	require.EqualValues(t, 1000, boundary.FileBound(1000, proc), "if the size of the table is unknown, only the setting counts")
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "sys/fs"), 0o700))
	for table, want := range map[string]int64{"400\n": 100, "9223372036854775807\n": 1000, "no number": 1000, "1": 1} {
		require.NoError(t, os.WriteFile(filepath.Join(proc, "sys/fs/file-max"), []byte(table), 0o600))
		require.Equal(t, want, boundary.FileBound(1000, proc), table)
		require.Zero(t, boundary.FileBound(0, proc))
	}
}

// mapTimes opens the file several times and maps it each time. It leaves no descriptor open.
func mapTimes(t *testing.T, path string, times int) {
	t.Helper()
	for range times {
		file, err := os.Open(path)
		require.NoError(t, err)
		mapped, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
		require.NoError(t, errors.Join(err, file.Close()))
		t.Cleanup(func() { _ = unix.Munmap(mapped) })
	}
}

// TestMappedFiles_segmentsOfOneFile counts the mappings of its own process, so it does not run in parallel.
func TestMappedFiles_segmentsOfOneFile(t *testing.T) { //nolint:paralleltest // other tests would change the mappings
	const most = 1 << 20
	count := func(strict bool) int64 { return boundary.MappedFiles(os.Getpid(), strict, most) }
	folder := t.TempDir()
	var paths []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte{1}, 0o600))
		paths = append(paths, path)
	}
	files, mappings := count(false), count(true)
	require.Positive(t, files)
	require.Greater(t, mappings, files, "the program itself has several mappings")
	for _, path := range paths {
		mapTimes(t, path, 4)
	}
	require.Equal(t, files+10, count(false), "the mappings of a file must count once")
	require.Equal(t, mappings+40, count(true), "each mapping must count if the count must not be too small")

	mapTimes(t, paths[0], 4000)
	require.Greater(t, count(false), int64(500), "not all mappings of a file can be segments of a library")
	require.EqualValues(t, 21, boundary.MappedFiles(os.Getpid(), true, 20), "reading must stop above the limit")
	require.Zero(t, boundary.MappedFiles(1<<30, true, most), "an ended process has no files")
}

func TestDescriptorsOf(t *testing.T) {
	t.Parallel()
	require.Positive(t, boundary.DescriptorsOf(os.Getpid()))
	require.Zero(t, boundary.DescriptorsOf(1<<30))
}

func TestFileTable_Scarce_halfOfTable(t *testing.T) {
	t.Parallel()
	require.False(t, boundary.FileTable{Open: 499, Size: 1000}.Scarce())
	require.True(t, boundary.FileTable{Open: 500, Size: 1000}.Scarce())
	table, err := boundary.OpenFiles()
	require.NoError(t, err)
	require.Positive(t, table.Open)
	require.Greater(t, table.Size, table.Open)
}
