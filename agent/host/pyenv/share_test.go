package pyenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// library writes a file of 100,000 bytes into an environment.
func library(t *testing.T, dir, name, letter string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat(letter, 100_000)), mode))
	return path
}

func inode(t *testing.T, path string) (number uint64, links int) {
	t.Helper()
	var stat unix.Stat_t
	require.NoError(t, unix.Lstat(path, &stat))
	return stat.Ino, int(stat.Nlink)
}

func TestBuilder_share_oneCopyOfEqualFiles(t *testing.T) {
	t.Parallel()
	b := NewBuilder(t.TempDir(), nil, clock.Real(), nil)
	first, second := filepath.Join(b.dir, "first"), filepath.Join(b.dir, "second")
	torch, same := library(t, first, "torch.so", "a", 0o644), library(t, second, "torch.so", "a", 0o644)
	program, other := library(t, second, "program", "a", 0o755), library(t, second, "other.so", "b", 0o644)
	require.NoError(t, os.WriteFile(filepath.Join(second, "small"), []byte("a"), 0o600))
	require.NoError(t, os.Symlink(torch, filepath.Join(second, "link")))
	for dir, want := range map[string]int64{first: 100_000, second: 300_000} {
		shared, err := b.share(dir)
		require.NoError(t, err)
		require.Equal(t, want, shared)
	}
	one, links := inode(t, torch)
	two, _ := inode(t, same)
	require.Equal(t, one, two, "equal files must be one file")
	require.EqualValues(t, 3, links)
	for _, path := range []string{program, other} {
		number, links := inode(t, path)
		require.NotEqual(t, one, number, path)
		require.EqualValues(t, 2, links, path)
	}
	_, links = inode(t, filepath.Join(second, "small"))
	require.EqualValues(t, 1, links)
	info, err := os.Stat(program)
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode().Perm())

	freed, left, err := b.sweep()
	require.NoError(t, err)
	require.Equal(t, []int64{0, 300_000}, []int64{freed, left})
	require.NoError(t, os.RemoveAll(second))
	freed, left, err = b.sweep()
	require.NoError(t, err)
	require.Equal(t, []int64{200_000, 100_000}, []int64{freed, left}, "files of other environments must be kept")
	require.FileExists(t, torch)
}

// The limit counts a shared file once, and removes it with the last environment that has it.
func TestBuilder_trim_sharedFilesCountOnce(t *testing.T) {
	t.Parallel()
	b := NewBuilder(t.TempDir(), nil, clock.Real(), nil)
	var dirs []string
	for n, name := range []string{"a", "b", "c"} {
		dir := place(t, b, name, 0)
		library(t, dir, "torch.so", "x", 0o644)
		_, err := b.share(dir)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, marker), []byte("1000"), 0o600))
		at := clock.Real().Now().Add(-time.Duration(3-n) * time.Hour)
		require.NoError(t, os.Chtimes(dir+lockSuffix, at, at))
		dirs = append(dirs, dir)
	}
	b.Limit(103_000, nil)
	freed, err := b.trim("")
	require.NoError(t, err)
	require.Zero(t, freed)
	b.Limit(101_500, nil)
	freed, err = b.trim("")
	require.NoError(t, err)
	require.EqualValues(t, 2000, freed)
	require.NoDirExists(t, dirs[0])
	require.NoDirExists(t, dirs[1])
	b.Limit(500, nil)
	freed, err = b.trim("")
	require.NoError(t, err)
	require.EqualValues(t, 101_000, freed)
}
