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

// account is a user account of a host.
type account struct {
	uid, gid uint32
	home     string
}

// host is the simulated machine of an installation with one process per service. Its folders are in the
// folder of the installation. If the test runs as root, the host has the users and groups of
// deploy/sysusers.d, and each process runs as the user of its unit.
type host struct {
	t      testing.TB
	dir    string
	users  map[string]account // nil if the test is not root
	groups map[string]uint32
	// replacements maps paths and ports of a real machine to those of the host, in the form that
	// strings.NewReplacer takes.
	replacements []string
	// ordinary runs the agent as the user that deploy/README.md names for an agent without root.
	ordinary bool
}

// group is the name of the installation's group in deploy/README.md.
const group = "signalbox"

// firstID is the first id of the host's users and groups. It is outside the ranges that systems assign.
const firstID = 60900

// newHost returns a host whose files are in dir and whose programs are in the given folder. It creates the data
// folder of the services, as an operator does according to deploy/README.md.
func newHost(t testing.TB, dir, programs string) *host {
	t.Helper()
	h := &host{t: t, dir: dir}
	if os.Geteuid() == 0 {
		h.sysusers()
		// Processes of other users use the folders in dir, so they must be able to pass through dir.
		require.NoError(t, os.Chmod(dir, 0o711))
	}
	h.replacements = []string{
		"/etc/signalbox", filepath.Join(dir, "etc", "signalbox"), "/var/lib/signalbox-agent", filepath.Join(dir, "agent"),
		"/var/lib/signalbox", filepath.Join(dir, "lib"), "/usr/bin/", h.programs(programs, "bin") + "/",
	}
	h.folder(filepath.Join(dir, "lib"), "signalbox")
	return h
}

// sysusers creates the host's users as systemd-sysusers would, but in the host's own account files.
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

// at replaces the paths and ports of a real machine in the given text by those of the host.
func (h *host) at(text string) string { return strings.NewReplacer(h.replacements...).Replace(text) }

func (h *host) all(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = h.at(text)
	}
	return out
}

// folder creates a folder that only the given user can enter.
func (h *host) folder(path, user string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(path, 0o700))
	h.setOwner(path, user, user, 0o700)
}

// setOwner sets the owner, group and mode of a file, as `install -o -g -m` does.
func (h *host) setOwner(path, user, group string, mode os.FileMode) {
	h.t.Helper()
	require.NoError(h.t, os.Chmod(path, mode))
	if h.users == nil {
		return
	}
	uid, gid := 0, 0
	if user != "root" {
		require.Contains(h.t, h.users, user)
		uid = int(h.users[user].uid)
	}
	if group != "root" {
		require.Contains(h.t, h.groups, group)
		gid = int(h.groups[group])
	}
	require.NoError(h.t, os.Chown(path, uid, gid))
}

// credential returns the user and groups of a unit's process, or nil if the test does not run as root.
func (h *host) credential(u unit) *syscall.Credential {
	h.t.Helper()
	if h.users == nil {
		return nil
	}
	user, primary := u.one("User"), u.one("Group")
	if user == "root" {
		return &syscall.Credential{}
	}
	require.Contains(h.t, h.users, user)
	require.Contains(h.t, h.groups, primary)
	c := &syscall.Credential{Uid: h.users[user].uid, Gid: h.groups[primary]}
	for name := range strings.FieldsSeq(u.one("SupplementaryGroups")) {
		require.Contains(h.t, h.groups, name)
		c.Groups = append(c.Groups, h.groups[name])
	}
	return c
}

// environment returns the environment that systemd gives to a unit's process. It contains nothing from the
// environment of the test.
func (h *host) environment(u unit) []string {
	h.t.Helper()
	user := u.one("User")
	home := "/nonexistent"
	if user == "root" {
		home = "/root"
	} else if h.users != nil {
		home = h.at(h.users[user].home)
	}
	own := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME=" + home, "USER=" + user, "LOGNAME=" + user,
		"SHELL=/usr/sbin/nologin",
	}
	return append(own, h.all(u.environment(h.t))...)
}

// programs returns the folder with the built programs. If other users cannot enter that folder, programs copies its files
// to a folder of the host with the given name, and returns this folder.
func (h *host) programs(built, name string) string {
	h.t.Helper()
	if h.users == nil || accessible(built) {
		return built
	}
	bin := filepath.Join(h.dir, name)
	require.NoError(h.t, os.MkdirAll(bin, 0o755))
	entries, err := os.ReadDir(built)
	require.NoError(h.t, err)
	for _, e := range entries {
		require.NoError(h.t, install(filepath.Join(built, e.Name()), filepath.Join(bin, e.Name())))
	}
	return bin
}

// install links or copies a program to a path where other users can run it. It keeps an existing file.
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

// accessible reports whether any user can pass through a folder and all its parents.
func accessible(dir string) bool {
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

// searchPath returns the test's PATH without the folders that other users cannot enter.
func (h *host) searchPath() string {
	var kept []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if h.users == nil || accessible(dir) {
			kept = append(kept, dir)
		}
	}
	return strings.Join(kept, string(filepath.ListSeparator))
}

// python reports whether a user finds a Python, version 3.11 or later, that can create environments.
func (h *host) python(c *syscall.Credential) bool {
	cmd := exec.CommandContext(h.t.Context(), "/bin/sh", "-c", `python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'`)
	cmd.Env = []string{"PATH=" + h.searchPath()}
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: c}, "/"
	return cmd.Run() == nil
}
