package local

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockDir_leftoverFileDoesNotLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	require.NoError(t, os.WriteFile(path, []byte("99999999 of a killed process\n"), 0o600))
	first, err := lockDir(t.Context(), dir)
	require.NoError(t, err, "a leftover file is not a lock")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid())+"\n", string(raw), "the previous pid is overwritten")

	_, err = lockDir(t.Context(), dir)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, dir+" is locked by process "+strconv.Itoa(os.Getpid()))
	require.NoError(t, unlock(first))
	require.NoError(t, unlock(first), "a second unlock does nothing")
	again, err := lockDir(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, unlock(again))
}

func TestLockDir_waitEndsWithContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := lockDir(t.Context(), dir)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockDir(ctx, dir)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, unlock(held))
	_, err = lockDir(t.Context(), filepath.Join(dir, "absent"))
	require.ErrorContains(t, err, "open the lock file of the Postgres folder")
}

func TestReadPidFile(t *testing.T) {
	t.Parallel()
	whole := "4711\n/data\n1700000000\n5433\n\n127.0.0.1\n  5433001         1\nready   \n"
	for name, c := range map[string]struct {
		text string
		want pidFile
		bad  bool
	}{
		"complete":            {whole, pidFile{pid: 4711, port: 5433, status: "ready"}, false},
		"starting":            {strings.Replace(whole, "ready   ", "starting", 1), pidFile{pid: 4711, port: 5433, status: "starting"}, false},
		"only the pid":        {"4711\n", pidFile{pid: 4711}, false},
		"up to the port":      {"4711\n/data\n1700000000\n5433\n", pidFile{pid: 4711, port: 5433}, false},
		"malformed port":      {"4711\n/data\n1700000000\nx\n", pidFile{pid: 4711}, false},
		"empty":               {"", pidFile{}, true},
		"malformed pid":       {"x\n", pidFile{}, true},
		"zeros after a crash": {strings.Repeat("\x00", 64), pidFile{}, true},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "postmaster.pid"), []byte(c.text), 0o600))
		got, err := readPidFile(dir)
		require.Equal(t, c.bad, err != nil, "%s: %v", name, err)
		require.True(t, c.bad || got == c.want, "%s: %+v", name, got)
	}
}

func TestEndOld_stalePidFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		left bool
	}{
		"exited process: the server handles it": {"4194303\n", true},
		"this process: stale":                   {strconv.Itoa(os.Getpid()) + "\n", false},
		"malformed: stale":                      {"garbage\n", false},
	} {
		data := t.TempDir()
		path := filepath.Join(data, "postmaster.pid")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		require.NoError(t, endOld(t.Context(), data), name)
		_, err := os.Stat(path)
		require.Equal(t, c.left, err == nil, name)
	}
	require.NoError(t, endOld(t.Context(), t.TempDir()), "a missing pid file is not an error")
}

func TestCluster_choosePort_prefersLastPort(t *testing.T) {
	t.Parallel()
	c := &cluster{cfg: Config{Dir: t.TempDir()}}
	first, err := c.choosePort(t.Context())
	require.NoError(t, err)
	require.Less(t, first, 32768, "the port is below those that the kernel may give to any program")
	require.NoError(t, c.keepPort(first))
	taken, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	other, err := c.choosePort(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, first, other, "another program uses the port")
	for _, text := range []string{"", "x", "-1", "70000", "0", "40000"} {
		require.NoError(t, os.WriteFile(filepath.Join(c.cfg.Dir, "port"), []byte(text), 0o600))
		port, err := c.choosePort(t.Context())
		require.NoError(t, err, "%q", text)
		require.Positive(t, port)
		require.Less(t, port, 32768, "%q", text)
	}
}

func TestWriteFile_replacesWholeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(path+".tmp", []byte("half of what a killed process wrote, and longer"), 0o600))
	for _, text := range []string{"first\n", "2\n"} {
		require.NoError(t, writeFile(path, text))
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(raw))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Error(t, writeFile(filepath.Join(dir, "absent", "x"), "x"))
}

func TestCluster_password_emptyFileIsReplaced(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"empty": "", "newline": "\n", "spaces": "  \n"} {
		c := &cluster{cfg: Config{Dir: t.TempDir()}}
		require.NoError(t, os.WriteFile(filepath.Join(c.cfg.Dir, "password"), []byte(text), 0o600))
		made, err := c.password()
		require.NoError(t, err, name)
		require.Len(t, made.Reveal(), 64, name)
		again, err := c.password()
		require.NoError(t, err, name)
		require.True(t, made.Equal(again), name)
	}
	a, err := (&cluster{cfg: Config{Dir: t.TempDir()}}).password()
	require.NoError(t, err)
	b, err := (&cluster{cfg: Config{Dir: t.TempDir()}}).password()
	require.NoError(t, err)
	require.False(t, a.Equal(b), "folders must have different passwords")
	c := &cluster{cfg: Config{Dir: t.TempDir()}}
	require.NoError(t, os.Mkdir(filepath.Join(c.cfg.Dir, "password"), 0o700))
	_, err = c.password()
	require.ErrorContains(t, err, "read the Postgres password")
}

func TestCluster_settings_durability(t *testing.T) {
	t.Parallel()
	for _, unsafe := range []bool{false, true} {
		c := &cluster{cfg: Config{Unsafe: unsafe}, data: "/d"}
		args := strings.Join(c.settings(5433), " ")
		for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
			require.Equal(t, !unsafe, strings.Contains(args, name+"=on"), name)
			require.Equal(t, unsafe, strings.Contains(args, name+"=off"), name)
		}
		require.Contains(t, args, "listen_addresses=127.0.0.1")
		require.Contains(t, args, "unix_socket_directories= ")
		require.True(t, strings.HasPrefix(args, "-D /d "), "endOld finds leftover servers by this prefix")
	}
	for given, want := range map[int]string{0: "max_connections=200", 199: "max_connections=200", 500: "max_connections=500"} {
		require.Contains(t, (&cluster{cfg: Config{MaxConnections: given}}).settings(1), want)
	}
}

func TestFinder_Find_wrongSettingIsAnError(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	good := folder(t, filepath.Join(root, "good"), "postgres", "initdb")
	finder := Finder{func(name string) (string, error) { return filepath.Join(good, name), nil }, root}
	closed := folder(t, filepath.Join(root, "closed"), "postgres", "initdb")
	require.NoError(t, os.Chmod(filepath.Join(closed, "initdb"), 0o644))
	nested := folder(t, filepath.Join(root, "nested"), "postgres")
	require.NoError(t, os.Mkdir(filepath.Join(nested, "initdb"), 0o755))
	for name, setting := range map[string]string{
		"program that is not executable": closed, "folder instead of a program": nested, "absent": filepath.Join(root, "none"),
		"path of the program": filepath.Join(good, "postgres"),
	} {
		_, err := finder.Find(setting, "")
		require.ErrorContains(t, err, "the configured Postgres folder", name)
		require.NotErrorIs(t, err, ErrNotFound, name)
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	relative, err := filepath.Rel(here, good)
	require.NoError(t, err)
	got, err := finder.Find(relative, "")
	require.NoError(t, err)
	require.Equal(t, good, got, "the path must be absolute because the server runs in another folder")
}
