package localfile_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

func lock(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "lock")
}

// taken requires that another process holds the lock, and returns the holder.
func taken(t *testing.T, path string) localfile.Holder {
	t.Helper()
	_, err := localfile.LockFolder(path)
	var held *localfile.FolderLockedError
	require.ErrorAs(t, err, &held)
	return held.Holder
}

func TestLockFolder_heldByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := lock(t)
	first, err := localfile.LockFolder(path)
	require.NoError(t, err)
	me := os.Getpid()
	require.Equal(t, localfile.Holder{PID: me}, taken(t, path))
	require.NoError(t, first.SetAddress("http://127.0.0.1:8080"))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, localfile.Holder{PID: me, Address: "http://127.0.0.1:8080"}, taken(t, path))
	require.EqualError(t, localfile.CheckFolderFree(path), fmt.Sprintf("held by another process, process %d, serving on http://127.0.0.1:8080", me))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, first.SetAddress("http://a"), "a shorter address overwrites a longer one completely")
	require.Equal(t, "http://a", taken(t, path).Address)
	require.NoError(t, first.Close())
	require.NoError(t, localfile.CheckFolderFree(path))
	second, err := localfile.LockFolder(path)
	require.NoError(t, err, "CheckFolderFree does not keep the lock")
	require.NoError(t, second.Close())
}

// The process that held the lock was killed while it started a child.
func TestLockFolder_heldByChildOfKilledProcess(t *testing.T) {
	t.Parallel()
	path := lock(t)
	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	held, err := localfile.TryLock(path)
	require.NoError(t, err)
	_, err = fmt.Fprintf(held, `{"pid":%d}`, ended.Process.Pid)
	require.NoError(t, err)
	child := exec.Command("cat")
	child.ExtraFiles = []*os.File{held.File}
	in, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	require.NoError(t, held.File.Close()) // The child still has the file open.
	locked := make(chan error, 1)
	go func() {
		h, err := localfile.LockFolder(path)
		if err == nil {
			err = h.Close()
		}
		locked <- err
	}()
	_, err = localfile.TryLock(path)
	require.ErrorIs(t, err, localfile.ErrLocked)
	require.NoError(t, in.Close())
	require.NoError(t, child.Wait())
	require.NoError(t, <-locked)
}

func TestLockFolder_concurrent(t *testing.T) {
	t.Parallel()
	path := lock(t)
	got := make(chan *localfile.FolderLock, 20)
	for range cap(got) {
		go func() {
			h, _ := localfile.LockFolder(path)
			got <- h
		}()
	}
	var held []*localfile.FolderLock
	for range cap(got) {
		if h := <-got; h != nil {
			held = append(held, h)
		}
	}
	require.Len(t, held, 1)
	require.NoError(t, held[0].Close())
}

func TestLockFolder_invalidHolder(t *testing.T) {
	t.Parallel()
	gone := exec.CommandContext(t.Context(), "true")
	require.NoError(t, gone.Run())
	for name, text := range map[string]string{
		"not written yet": "", "rubbish": "{", "no process": `{"pid":0,"address":"http://a"}`,
		"killed process": fmt.Sprintf(`{"pid":%d,"address":"http://a"}`, gone.Process.Pid),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // LockFolder waits for some seconds
			path := lock(t)
			h, err := localfile.LockFolder(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			holder := taken(t, path)
			require.Equal(t, localfile.Holder{}, holder)
			require.Empty(t, holder.String())
			require.NoError(t, h.Close())
		})
	}
}

func TestCheckFolderFree_lockCannotBeOpened(t *testing.T) {
	t.Parallel()
	err := localfile.CheckFolderFree(filepath.Join(lock(t), "x"))
	require.ErrorIs(t, err, os.ErrNotExist)
	var held *localfile.FolderLockedError
	require.NotErrorAs(t, err, &held)
}
