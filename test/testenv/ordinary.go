package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ordinaryUser is the id of the user of a process that must not run as root.
const ordinaryUser = 65534

// tools copies pasta and uv to a folder where every user can run them.
func tools(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(dir, "tools")
	require.NoError(t, os.MkdirAll(to, 0o755))
	for _, pattern := range []string{filepath.Join(Tool(t.Context(), t, "pasta.sh"), "pasta*"), filepath.Join(strings.Split(PathWithUV(t), ":")[0], "uv")} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			// Pasta is a link to passt.
			real, err := filepath.EvalSymlinks(file)
			require.NoError(t, err)
			require.NoError(t, install(real, filepath.Join(to, filepath.Base(file))))
		}
	}
	return to
}

// asUser returns a command line that runs argv as the user. The user can open /dev/net/tun, as on most systems, but
// only in this process.
func asUser(t testing.TB, dir string, uid, gid uint32, argv []string) []string {
	t.Helper()
	device := filepath.Join(dir, "tun")
	if !exists(device) {
		const major, minor = 10, 200
		require.NoError(t, unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))))
		require.NoError(t, os.Chmod(device, 0o666))
	}
	return append([]string{
		"unshare", "--mount", "sh", "-c", fmt.Sprintf(`mount --bind "$0" /dev/net/tun && exec setpriv --reuid %d --regid %d --clear-groups "$@"`, uid, gid), device,
	}, argv...)
}

// ordinary changes signalboxd so that it runs as an ordinary user.
func (s *Installation) ordinary(p *Process) {
	t := s.T
	t.Helper()
	postgres, program := filepath.Join(s.Dir, "programs"), filepath.Join(s.Dir, "signalboxd")
	if cache := filepath.Join(Root(t), ".cache", "postgres"); exists(cache) {
		require.NoError(t, exec.CommandContext(t.Context(), "cp", "-rL", cache, postgres).Run())
	}
	require.NoError(t, install(p.argv[0], program))
	path := tools(t, s.Dir) + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	s.Environments = filepath.Join(s.Dir, "envs")
	environ := []string{
		"PATH=" + path, "HOME=" + s.Dir, "TMPDIR=" + s.Dir, "SERVICE_AGENT_ENVIRONMENTS=" + s.Environments, "SERVICE_POSTGRES_CACHE=" + postgres,
	}
	for _, e := range slices.Backward(p.env) {
		if strings.HasPrefix(e, "SERVICE_") || strings.HasPrefix(e, "PIP_") || strings.HasPrefix(e, "UV_") || strings.HasPrefix(e, "SSL_") {
			environ = append([]string{e}, environ...)
		}
	}
	p.env = environ
	p.argv[0] = program
	p.argv = asUser(t, s.Dir, ordinaryUser, ordinaryUser, p.argv)
	require.NoError(t, exec.CommandContext(t.Context(), "chown", "-R", "-h", strconv.Itoa(ordinaryUser)+":"+strconv.Itoa(ordinaryUser), s.Dir).Run())
	p.dir = s.Dir
}

// ownDevices is a script that replaces /dev and then runs a command. Its arguments are an empty folder, the names of
// additional devices, --, and the command. The new /dev has the usual devices and the additional ones. Like the /dev of
// a container, it has no loop devices.
const ownDevices = `set -e; new=$1; shift
mount -t tmpfs -o mode=755 tmpfs "$new"
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/kmsg /dev/fd /dev/stdin /dev/stdout /dev/stderr "$new"
mkdir "$new/pts" "$new/shm" "$new/net"
for folder in pts shm net; do mount --rbind "/dev/$folder" "$new/$folder"; done
ln -s pts/ptmx "$new/ptmx"
cp -a /dev/loop-control "$new"
while [ "$1" != -- ]; do mknod -m 666 "$new/$1" c 1 3; shift; done
shift
mount --move "$new" /dev
exec "$@"`

// giveDevices makes the process run with a private /dev that contains the devices.
func (p *Process) giveDevices(names []string) {
	p.t.Helper()
	if len(names) == 0 {
		return
	}
	require.True(p.t, p.cred == nil || p.cred.Uid == 0, "only root can replace /dev")
	argv := append([]string{"unshare", "--mount", "sh", "-c", ownDevices, "sh", p.t.TempDir()}, names...)
	p.argv = append(append(argv, "--"), p.argv...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
