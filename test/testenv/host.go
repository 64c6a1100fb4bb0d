package testenv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// account is a user of a host.
type account struct {
	uid, gid uint32
	home     string
}

// host is the throw-away machine of the split shape: its folders lie below the stand's. Where the test is
// root it has the users and groups of deploy/sysusers.d, and every unit runs as what it says.
type host struct {
	t      testing.TB
	dir    string
	users  map[string]account // nil where the test cannot become another
	groups map[string]uint32
	places []string
}

// group is that of the installation, as deploy/README.md names it.
const group = "signalbox"

// firstID is the first id of the host's users and groups, which no system gives to anyone.
const firstID = 60900

// newHost makes the folders that deploy/README.md tells an operator to make.
func newHost(t testing.TB, dir string) *host {
	t.Helper()
	h := &host{t: t, dir: dir}
	if os.Geteuid() == 0 {
		h.sysusers()
		// Others' processes work in folders of it; it is no secret that they are there.
		require.NoError(t, os.Chmod(dir, 0o711))
	}
	h.places = []string{
		"/etc/signalbox", filepath.Join(dir, "etc", "signalbox"), "/var/lib/signalbox-agent", filepath.Join(dir, "agent"),
		"/var/lib/signalbox", filepath.Join(dir, "lib"), "/usr/bin/", h.programs() + "/",
	}
	h.folder(filepath.Join(dir, "lib"), "signalbox")
	return h
}

// sysusers makes the host's users as systemd-sysusers would, in files of the host's own.
func (h *host) sysusers() {
	h.t.Helper()
	h.users, h.groups = map[string]account{}, map[string]uint32{}
	var passwd, groups strings.Builder
	for n, line := range lines(h.t, filepath.Join(Root(h.t), "deploy", "sysusers.d", "signalbox.conf")) {
		fields := strings.Fields(line)
		kind, name, id := fields[0], fields[1], uint32(firstID+n)
		h.groups[name] = id
		fmt.Fprintf(&groups, "%s:x:%d:\n", name, id)
		if kind == "u" {
			home := fields[len(fields)-1]
			h.users[name] = account{uid: id, gid: id, home: home}
			fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:/usr/sbin/nologin\n", name, id, id, home)
		}
	}
	etc := filepath.Join(h.dir, "etc")
	require.NoError(h.t, os.MkdirAll(etc, 0o755))
	require.NoError(h.t, os.WriteFile(filepath.Join(etc, "passwd"), []byte(passwd.String()), 0o600))
	require.NoError(h.t, os.WriteFile(filepath.Join(etc, "group"), []byte(groups.String()), 0o600))
}

// at moves a text from its places on a machine to the host's.
func (h *host) at(text string) string { return strings.NewReplacer(h.places...).Replace(text) }

func (h *host) all(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = h.at(text)
	}
	return out
}

// folder makes a folder for a user alone.
func (h *host) folder(path, user string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(path, 0o700))
	h.give(path, user, user, 0o700)
}

// give hands a file over, as `install -o -g -m` does.
func (h *host) give(path, user, group string, mode os.FileMode) {
	h.t.Helper()
	require.NoError(h.t, os.Chmod(path, mode))
	if h.users == nil {
		return
	}
	uid := 0
	if user != "root" {
		require.Contains(h.t, h.users, user)
		uid = int(h.users[user].uid)
	}
	require.Contains(h.t, h.groups, group)
	require.NoError(h.t, os.Chown(path, uid, int(h.groups[group])))
}

// credential is what a unit's process runs as; nil where the test cannot become another.
func (h *host) credential(u unit) *syscall.Credential {
	h.t.Helper()
	if h.users == nil {
		return nil
	}
	user, primary := u.one("User"), u.one("Group")
	require.Contains(h.t, h.users, user)
	require.Contains(h.t, h.groups, primary)
	c := &syscall.Credential{Uid: h.users[user].uid, Gid: h.groups[primary]}
	for name := range strings.FieldsSeq(u.one("SupplementaryGroups")) {
		require.Contains(h.t, h.groups, name)
		c.Groups = append(c.Groups, h.groups[name])
	}
	return c
}

// environment is what systemd gives a unit's process, and nothing of the test's own.
func (h *host) environment(u unit) []string {
	h.t.Helper()
	user := u.one("User")
	home := "/nonexistent"
	if h.users != nil {
		home = h.at(h.users[user].home)
	}
	own := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME=" + home, "USER=" + user, "LOGNAME=" + user,
		"SHELL=/usr/sbin/nologin",
	}
	return append(own, h.all(u.environment(h.t))...)
}

// programs is the folder of the programs that `make build` made. Where others cannot go there, they are
// put into the host, as deploy/README.md does.
func (h *host) programs() string {
	h.t.Helper()
	made := filepath.Join(Root(h.t), "bin")
	if h.users == nil || open(made) {
		return made
	}
	bin := filepath.Join(h.dir, "bin")
	require.NoError(h.t, os.MkdirAll(bin, 0o755))
	entries, err := os.ReadDir(made)
	require.NoError(h.t, err)
	for _, e := range entries {
		require.NoError(h.t, install(filepath.Join(made, e.Name()), filepath.Join(bin, e.Name())))
	}
	return bin
}

// install puts a program where another user may run it.
func install(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// open tells whether everyone may go through a folder and those above it.
func open(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// searchPath is the test's PATH, without the folders that only the test may enter.
func (h *host) searchPath() string {
	var kept []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if h.users == nil || open(dir) {
			kept = append(kept, dir)
		}
	}
	return strings.Join(kept, string(filepath.ListSeparator))
}

// python tells whether a unit's user finds an interpreter that makes environments.
func (h *host) python(c *syscall.Credential) bool {
	cmd := exec.CommandContext(h.t.Context(), "/bin/sh", "-c", `python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'`)
	cmd.Env = []string{"PATH=" + h.searchPath()}
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: c}, "/"
	return cmd.Run() == nil
}
