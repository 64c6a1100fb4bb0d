package setup_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// groupNames returns the groups of deploy/sysusers.d, in the order of their IDs in a test's installation.
func groupNames() []string {
	names := []string{"signalbox", "signalbox-keyring", "signalbox-audit"}
	for _, one := range setup.Identities() {
		names = append(names, "signalbox-"+one)
	}
	return names
}

const firstGID = 60900

// installation creates a root folder whose etc/group has two invalid lines and all groups except the given ones.
func installation(t *testing.T, without ...string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	text := "root:x:0:\nbroken\nsignalbox-half:x:none:\n"
	for n, name := range groupNames() {
		if len(without) == 0 || !strings.Contains(strings.Join(without, " ")+" ", name+" ") {
			text += fmt.Sprintf("%s:x:%d:\n", name, firstGID+n)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc", "group"), []byte(text), 0o600))
	return root
}

// asRoot reports whether the test runs as root, because only root can change the group of files. If it does not, asRoot
// requires that s.Certs returns an error that states this reason.
func asRoot(t *testing.T, s setup.Setup) bool {
	t.Helper()
	if os.Geteuid() == 0 {
		return true
	}
	require.ErrorContains(t, s.Certs(), "requires root")
	return false
}

func shared(t *testing.T, root string) setup.Setup {
	t.Helper()
	readers, err := setup.LookupReaders(root, "signalbox")
	require.NoError(t, err)
	return setup.Setup{Dir: filepath.Join(root, "etc", "signalbox"), Clock: clock.Real(), Readers: readers}
}

// access returns the group and the mode of everything in the folder, and requires that root owns it.
func access(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		st := info.Sys().(*syscall.Stat_t)
		require.Zero(t, st.Uid, "%s must be owned by root, so that no service can change its own key", path)
		group := "root"
		if st.Gid >= firstGID {
			group = groupNames()[st.Gid-firstGID]
		}
		rel, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		out[filepath.ToSlash(rel)] = fmt.Sprintf("%s %o", group, info.Mode().Perm())
		return nil
	}))
	return out
}

func TestSetup_shareGroupsAndModes(t *testing.T) {
	t.Parallel()
	root := installation(t)
	s := shared(t, root)
	if !asRoot(t, s) {
		return
	}
	want := map[string]string{
		".": "signalbox 750", "tls": "signalbox 750", "secrets": "signalbox 750", "ca": "signalbox-jobs 750",
		"ca/ca.pem": "signalbox-jobs 640", "ca/ca-key.pem": "signalbox-jobs 640", "tls/ca.pem": "signalbox 640",
		"secrets/keyring": "signalbox-keyring 640", "secrets/audit-key": "signalbox-audit 640",
		"secrets/blob-key": "signalbox 640", "secrets/database-seed": "root 600",
	}
	for _, one := range setup.Identities() {
		want["tls/"+one+".pem"], want["tls/"+one+"-key.pem"] = "signalbox-"+one+" 640", "signalbox-"+one+" 640"
	}
	for range 2 {
		require.NoError(t, s.Certs())
		require.NoError(t, s.Secrets())
		require.Equal(t, want, access(t, s.Dir), "a second run must accept files that a group reads")
	}
}

func TestSetup_Database_urlReadableByItsService(t *testing.T) {
	t.Parallel()
	root := installation(t)
	s := shared(t, root)
	if !asRoot(t, s) {
		return
	}
	bin, err := local.Find("", filepath.Join("..", "..", "..", "..", ".cache", "postgres"))
	require.NoError(t, err)
	data := filepath.Join(t.TempDir(), "pg")
	pgtest.Cluster(t, data)
	server, err := local.Start(t.Context(), local.Config{BinDir: bin, Dir: data, Entropy: rand.Reader})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	admin := filepath.Join(t.TempDir(), "admin-url")
	require.NoError(t, os.WriteFile(admin, []byte(server.AdminURL().Reveal()), 0o600))
	for range 2 {
		require.NoError(t, s.Database(t.Context(), admin, "signalbox"))
		got := access(t, filepath.Join(s.Dir, "secrets"))
		for _, one := range setup.Schemas() {
			require.Equal(t, "signalbox-"+one+" 640", got[one+".database-url"])
			require.Equal(t, "signalbox-"+one+" 640", got[one+".database-owner-url"])
		}
	}
}

func TestSetup_shareDeniesOtherGroups(t *testing.T) {
	t.Parallel()
	root := installation(t)
	s := shared(t, root)
	if !asRoot(t, s) {
		return
	}
	require.NoError(t, s.Certs())
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	const user = 60999
	reads := func(file string, groups ...uint32) error {
		cmd := exec.CommandContext(t.Context(), "cat", filepath.Join(s.Dir, file))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: groups[0], Groups: groups}}
		return cmd.Run()
	}
	gid := func(name string) uint32 {
		for n, one := range groupNames() {
			if one == name {
				return uint32(firstGID + n)
			}
		}
		require.FailNow(t, name)
		return 0
	}
	all := gid("signalbox")
	require.NoError(t, reads("tls/jobs-key.pem", gid("signalbox-jobs"), all))
	require.NoError(t, reads("ca/ca-key.pem", gid("signalbox-jobs"), all))
	require.NoError(t, reads("tls/ca.pem", gid("signalbox-auth"), all))
	require.Error(t, reads("tls/jobs-key.pem", gid("signalbox-auth"), all))
	require.Error(t, reads("ca/ca-key.pem", gid("signalbox-auth"), all))
	require.Error(t, reads("tls/ca.pem", gid("signalbox-auth")), "only members of the installation's group may enter the folder")
	require.Error(t, reads("tls/ca.pem", user))
}

func TestLookupReaders_missingGroups(t *testing.T) {
	t.Parallel()
	_, err := setup.LookupReaders(installation(t, "signalbox-jobs", "signalbox-audit"), "signalbox")
	require.ErrorContains(t, err, "missing groups: signalbox-jobs, signalbox-audit;")
	require.ErrorContains(t, err, "sysusers.d")
	_, err = setup.LookupReaders("", "no-such-group-of-signalbox")
	require.ErrorContains(t, err, "missing groups: no-such-group-of-signalbox-auth, ", "without a root folder, the groups of the machine must be searched")
	_, err = setup.LookupReaders(t.TempDir(), "signalbox")
	require.ErrorContains(t, err, "read the groups")
}

func TestSetup_refusesRunWithoutGroup(t *testing.T) {
	t.Parallel()
	root := installation(t)
	s := shared(t, root)
	if !asRoot(t, s) {
		return
	}
	require.NoError(t, s.Certs())
	require.NoError(t, s.Secrets())
	before := access(t, s.Dir)
	s.Readers = nil
	require.ErrorContains(t, s.Certs(), "pass the group with --group")
	require.ErrorContains(t, s.Secrets(), "pass the group with --group")
	require.ErrorContains(t, s.Database(t.Context(), "absent", "x"), "pass the group with --group")
	require.Equal(t, before, access(t, s.Dir))
}

func TestSetup_sharesExistingFiles(t *testing.T) {
	t.Parallel()
	root := installation(t)
	s := shared(t, root)
	if !asRoot(t, s) {
		return
	}
	alone := setup.Setup{Dir: s.Dir, Clock: s.Clock}
	require.NoError(t, alone.Certs())
	first := files(t, s.Dir)
	require.NoError(t, s.Certs())
	require.Equal(t, "signalbox-jobs 640", access(t, s.Dir)["tls/jobs-key.pem"])
	raw, err := os.ReadFile(filepath.Join(s.Dir, "tls", "jobs-key.pem"))
	require.NoError(t, err)
	require.Equal(t, first[filepath.Join(s.Dir, "tls", "jobs-key.pem")], string(raw), "the file must be unchanged")
}

func TestSetup_keepsPublicFolderAndRejectsSymlink(t *testing.T) {
	t.Parallel()
	root := installation(t)
	s := shared(t, root)
	if !asRoot(t, s) {
		return
	}
	require.NoError(t, os.Mkdir(s.Dir, 0o755))
	require.NoError(t, s.Secrets())
	require.Equal(t, "root 755", access(t, s.Dir)["."])
	outside := filepath.Join(root, "shadow")
	require.NoError(t, os.WriteFile(outside, []byte("0123456789"), 0o600))
	key := filepath.Join(s.Dir, "secrets", "blob-key")
	require.NoError(t, os.Remove(key))
	require.NoError(t, os.Symlink(outside, key))
	require.ErrorContains(t, s.Secrets(), "not a regular file")
	require.Equal(t, "root 600", access(t, root)["shadow"])
}
