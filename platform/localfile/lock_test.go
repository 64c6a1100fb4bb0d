package localfile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

func TestTryLock_lockedUntilClosed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := localfile.TryLock(path)
	require.NoError(t, err)
	_, err = first.WriteAt([]byte("mine"), 0)
	require.NoError(t, err)
	_, err = localfile.TryLock(path)
	require.ErrorIs(t, err, localfile.ErrLocked)
	require.NoError(t, first.Close())
	second, err := localfile.TryLock(path)
	require.NoError(t, err)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(raw), "locking keeps the content")
	require.NoError(t, second.Close())
}

func TestLockedFile_Close_releasesLockOfDuplicatedDescriptor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := localfile.TryLock(path)
	require.NoError(t, err)
	child, err := syscall.Dup(int(held.Fd())) // like a child between fork and exec
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(child)) })
	require.NoError(t, held.Close())
	again, err := localfile.TryLock(path)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestTryLock_missingFolderIsNotErrLocked(t *testing.T) {
	t.Parallel()
	_, err := localfile.TryLock(filepath.Join(t.TempDir(), "absent", "lock"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, localfile.ErrLocked)
}

func TestLockWithin(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := localfile.TryLock(path)
	require.NoError(t, err)
	_, err = localfile.LockWithin(path, 0)
	require.ErrorIs(t, err, localfile.ErrLocked)
	done := make(chan error, 1)
	go func() {
		next, err := localfile.LockWithin(path, time.Hour)
		if err == nil {
			err = next.Close()
		}
		done <- err
	}()
	require.NoError(t, held.Close())
	require.NoError(t, <-done)
}
