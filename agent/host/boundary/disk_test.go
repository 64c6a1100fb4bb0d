package boundary_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

const mib = 1 << 20

// newDisk creates a disk with the folder `own`. It returns false if the test does not run as root, because only root
// can create disks.
func newDisk(t *testing.T, purpose boundary.Purpose, size int64) (boundary.Disk, bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		return boundary.Disk{}, false // only root mounts file systems
	}
	dir := t.TempDir()
	d := boundary.Disk{Image: filepath.Join(dir, "disk.img"), Dir: filepath.Join(dir, "disk"), Purpose: purpose}
	mkfs, err := exec.LookPath("mkfs.ext4")
	require.NoError(t, err)
	require.NoError(t, d.Create(t.Context(), mkfs, size, "own"))
	return d, true
}

// openDisk opens the disk until the test ends, and returns its folder `own`.
func openDisk(t *testing.T, d boundary.Disk) string {
	t.Helper()
	root, err := d.Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return filepath.Join(root.Name(), "own")
}

// fill writes to the file until the disk is full.
func fill(t *testing.T, path string) (written int64) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for err == nil {
		var n int
		n, err = f.Write(make([]byte, mib))
		written += int64(n)
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	return written
}

func occupied(t *testing.T, d boundary.Disk) int64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(d.Image, &st))
	return st.Blocks * 512
}

// syncDisk writes all data of the disk to its image.
func syncDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.NoError(t, unix.Syncfs(int(f.Fd())))
}

// attachments returns how many loop devices are attached to the image.
func attachments(t *testing.T, d boundary.Disk) (n int) {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(t, err)
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(raw)) == d.Image {
			n++
		}
	}
	return n
}

func TestDisk_limitsSpaceAndInodes(t *testing.T) {
	t.Parallel()
	for _, purpose := range []boundary.Purpose{boundary.Scratch, boundary.Reports} {
		d, ok := newDisk(t, purpose, 32*mib)
		if !ok {
			return
		}
		own := openDisk(t, d)
		written := fill(t, filepath.Join(own, "large"))
		require.Greater(t, written, int64(20*mib))
		require.LessOrEqual(t, written, int64(32*mib))
		u, err := d.Usage()
		require.NoError(t, err)
		require.True(t, u.Full(), "%+v", u)
		require.NoError(t, os.Remove(filepath.Join(own, "large")))
		for n := 0; err == nil && n < 100_000; n++ {
			err = os.WriteFile(filepath.Join(own, strconv.Itoa(n)), nil, 0o600)
		}
		require.ErrorIs(t, err, unix.ENOSPC)
	}
}

func TestDisk_Open_sharesOneDevice(t *testing.T) {
	t.Parallel()
	d, ok := newDisk(t, boundary.Scratch, 16*mib)
	if !ok {
		return
	}
	one, other := openDisk(t, d), openDisk(t, d)
	require.NotEqual(t, one, other)
	require.NoError(t, os.WriteFile(filepath.Join(one, "file"), []byte("text"), 0o600))
	raw, err := os.ReadFile(filepath.Join(other, "file"))
	require.NoError(t, err)
	require.Equal(t, "text", string(raw))
	require.Equal(t, 1, attachments(t, d), "both calls must use one device, because two devices for one image destroy its file system")
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(one, &st))
	require.Equal(t, int64(unix.ST_NOSUID|unix.ST_NODEV), st.Flags&(unix.ST_NOSUID|unix.ST_NODEV))
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), d.Dir, "the disk must not appear among the machine's mounts")
}

func TestDisk_detachedWhenUnused(t *testing.T) {
	t.Parallel()
	d, ok := newDisk(t, boundary.Reports, 16*mib)
	if !ok {
		return
	}
	root, err := d.Open()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root.Name(), "own", "file"), []byte("text"), 0o600))
	require.NoError(t, root.Close())
	require.Eventually(t, func() bool { return attachments(t, d) == 0 }, time.Minute, 10*time.Millisecond)
	raw, err := os.ReadFile(filepath.Join(openDisk(t, d), "file"))
	require.NoError(t, err, "a disk must keep its files")
	require.Equal(t, "text", string(raw))
}

func TestDisk_space(t *testing.T) {
	t.Parallel()
	d, ok := newDisk(t, boundary.Scratch, 64*mib)
	if !ok {
		return
	}
	require.Less(t, occupied(t, d), int64(8*mib), "an empty disk must occupy nearly nothing")
	promised, err := boundary.Promised([]string{d.Image, d.Image + ".missing"})
	require.NoError(t, err)
	require.Equal(t, 64*mib-occupied(t, d), promised)
	own := openDisk(t, d)
	file := filepath.Join(own, "file")
	require.NoError(t, os.WriteFile(file, make([]byte, 30*mib), 0o600))
	syncDisk(t, own)
	require.Greater(t, occupied(t, d), int64(30*mib))
	require.NoError(t, os.Remove(file))
	require.Eventually(t, func() bool { syncDisk(t, own); return occupied(t, d) < 8*mib }, time.Minute, 10*time.Millisecond, "deleted files must occupy no space")
	kept, _ := newDisk(t, boundary.Reports, 16*mib)
	require.GreaterOrEqual(t, occupied(t, kept), int64(16*mib), "the space of a disk for reports must be allocated from the start")
	promised, err = boundary.Promised([]string{kept.Image})
	require.NoError(t, err)
	require.Zero(t, promised)
}

func TestDisk_errors(t *testing.T) {
	t.Parallel()
	d := boundary.Disk{Image: filepath.Join(t.TempDir(), "missing"), Purpose: boundary.Scratch}
	_, err := d.Open()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = d.Usage()
	require.ErrorIs(t, err, os.ErrNotExist)
	d.Dir = filepath.Join(t.TempDir(), "dir")
	err = d.Create(t.Context(), "/bin/false", mib)
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
}
