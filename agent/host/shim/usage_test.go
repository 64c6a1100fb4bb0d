package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiskBounds_exceeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"within the bounds":       {"head -c 500000 /dev/zero > a; for n in $(seq 50); do ln a $n; done; truncate -s 1G sparse; ln -s /usr outside", ""},
		"bytes of several files":  {"for n in 1 2 3 4 5; do head -c 500000 /dev/zero > $n; done", "bytes of disk space"},
		"files":                   {"for n in $(seq 200); do : > $n; done", "of 100 files"},
		"folders":                 {"mkdir -p $(seq -s / 150)", "of 100 files"},
		"in a folder of a folder": {"mkdir -p a/b; head -c 3000000 /dev/zero > a/b/c", "bytes of disk space"},
	} {
		folder := filepath.Join(t.TempDir(), "work")
		require.NoError(t, os.Mkdir(folder, 0o700))
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", c.text)
		cmd.Dir = folder
		require.NoError(t, cmd.Run(), name)
		got := DiskBounds{Folders: []string{folder}, Bytes: 2_000_000, Files: 100}.exceeded(t.Context(), os.Getpid())
		if c.want == "" {
			require.Empty(t, got, name)
		}
		require.Contains(t, got, c.want, name)
	}
}

// A folder whose content cannot be counted would hide what a command has written.
func TestDiskBounds_exceeded_unmeasured(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "for n in $(seq 10); do mkdir -p $(seq -s / 30) && cd $(seq -s / 30); done")
	cmd.Dir = top
	require.NoError(t, cmd.Run())
	bounds := DiskBounds{Folders: []string{top}, Bytes: 1 << 40, Files: 1 << 40}
	require.Contains(t, bounds.exceeded(t.Context(), os.Getpid()), "contains more than 200 folders within each other")
	if os.Geteuid() == 0 {
		return // root can read every folder
	}
	closed := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.Mkdir(closed, 0))
	bounds.Folders = []string{filepath.Dir(closed)}
	require.Contains(t, bounds.exceeded(t.Context(), os.Getpid()), "closed: permission denied")
}
