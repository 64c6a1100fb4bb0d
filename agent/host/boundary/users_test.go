package boundary

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestParseUsers(t *testing.T) {
	t.Parallel()
	got, err := ParseUsers("200000-265535")
	require.NoError(t, err)
	require.Equal(t, Users{First: 200_000, Last: 265_535}, got)
	require.Equal(t, "200000-265535", got.String())
	for name, text := range map[string]string{
		"empty": "", "one id": "200000", "not numbers": "a-b", "ids of the system": "0-65535", "too few": "200000-200098",
		"reversed": "300000-200000", "too large": "200000-4294967295",
	} {
		_, err := ParseUsers(text)
		require.Error(t, err, name)
	}
}

func TestUsers_Pick_skipsTakenIDs(t *testing.T) {
	t.Parallel()
	u := Users{First: 300_000, Last: 300_003}
	taken := map[int]bool{}
	for range 4 {
		id, err := u.Pick(bytes.NewReader(make([]byte, 64)), taken)
		require.NoError(t, err)
		require.True(t, u.Contains(id))
		require.False(t, taken[id], "the id %d must be picked only once", id)
		taken[id] = true
	}
	_, err := u.Pick(bytes.NewReader(make([]byte, 64)), taken)
	require.ErrorContains(t, err, "SERVICE_AGENT_WORK_USERS")
	_, err = u.Pick(bytes.NewReader(nil), nil)
	require.ErrorContains(t, err, "choose a random user id")
}

func TestUsers_Pick_skipsIDsOfProcesses(t *testing.T) {
	t.Parallel()
	own := os.Geteuid()
	_, err := Users{First: own, Last: own}.Pick(bytes.NewReader(make([]byte, 64)), nil)
	require.ErrorContains(t, err, "in use", "the only id of the range belongs to this process")
}

func TestIDsOfProcesses(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	for pid, text := range map[string]string{"1": "Name:\tx\nUid:\t7\t8\t9\t10\n", "2": "", "self": "Uid:\t11\n"} {
		require.NoError(t, os.Mkdir(filepath.Join(proc, pid), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(proc, pid, "status"), []byte(text), 0o600))
	}
	ids, err := idsOfProcesses(proc)
	require.NoError(t, err)
	require.Equal(t, map[int]bool{7: true, 8: true, 9: true, 10: true}, ids)
}

func TestOpenRegular(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("plain", filepath.Join(dir, "inner-link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "folder-link")))
	require.NoError(t, os.Link(secret, filepath.Join(dir, "second-name")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	f, err := OpenRegular(dir, "plain")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	// Check that os.Open opens each name, so that the error comes from a check of OpenRegular.
	for _, name := range []string{"link", "inner-link", "folder-link/secret", "second-name", "folder", "../" + filepath.Base(outside) + "/secret", "pipe"} {
		if name != "pipe" && filepath.IsLocal(name) {
			g, err := os.Open(filepath.Join(dir, name))
			require.NoError(t, err)
			require.NoError(t, g.Close())
		}
		_, err := OpenRegular(dir, name)
		require.Error(t, err, name)
	}
	_, err = OpenRegular(filepath.Join(dir, "folder-link"), "secret")
	require.Error(t, err, "a folder that is itself a link must be rejected")
}

func TestMakeReadable(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "folder", "data"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), nil, 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, MakeReadable(dir))
	for path, want := range map[string]os.FileMode{
		filepath.Join(dir, "folder"): 0o755, filepath.Join(dir, "folder", "data"): 0o644, filepath.Join(dir, "program"): 0o755, outside: 0o600,
	} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), path)
	}
	require.Error(t, MakeReadable(filepath.Join(dir, "missing")))
}

func TestGive_skipsFilesWithSeveralNames(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		require.ErrorIs(t, Give(t.TempDir(), 212_000), fs.ErrPermission, "only root may change owners")
		return
	}
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Link(outside, filepath.Join(dir, "second-name")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own"), nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	const id = 212_000
	require.NoError(t, Give(dir, id))
	for path, want := range map[string]uint32{dir: id, filepath.Join(dir, "own"): id, filepath.Join(dir, "link"): id, outside: 0} {
		info, err := os.Lstat(path)
		require.NoError(t, err)
		s, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.Equal(t, strconv.Itoa(int(want)), strconv.Itoa(int(s.Uid)), path)
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	require.True(t, Contains("/usr", "/usr"))
	require.True(t, Contains("/usr", "/usr/lib"))
	require.True(t, Contains("/", "/usr"))
	require.False(t, Contains("/usr", "/usrlocal"))
	require.False(t, Contains("/usr/lib", "/usr"))
}

func TestIsolation_WithoutDevices(t *testing.T) {
	t.Parallel()
	all := Isolation{Kind: OwnUser, Root: "/a", Binds: []Bind{{Path: "/work", Access: Writable}, {Path: "/dev/nvidia0", Access: Device}, {Path: "/sys", Access: ReadOnly}}}
	got := all.WithoutDevices("/b")
	require.Equal(t, Isolation{Kind: OwnUser, Root: "/b", Binds: []Bind{{Path: "/work", Access: Writable}}}, got)
	require.Len(t, all.Binds, 3, "the original must not change")
	require.Equal(t, "/dev/nvidia0", all.Binds[1].Path)
}

func TestSyscallFilter_jumpsStayInside(t *testing.T) {
	t.Parallel()
	filter, err := syscallFilter()
	require.NoError(t, err)
	for n, i := range filter {
		if i.Code&0x7 == unix.BPF_JMP {
			require.Less(t, n+1+int(max(i.Jt, i.Jf)), len(filter))
		}
	}
	require.Equal(t, result(unix.SECCOMP_RET_ALLOW), filter[len(filter)-1])
	require.LessOrEqual(t, len(filter), 4096, "the filter must not exceed the kernel's limit")
}
