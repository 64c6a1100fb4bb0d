package setup_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// files returns the content of all files in a folder, by path. It requires that only their owner can read them.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s must be readable by its owner only", path)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		out[path] = string(raw)
		return nil
	})
	require.NoError(t, err)
	return out
}

func TestSetup_secondRunKeepsFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etc")
	s := setup.Setup{Dir: dir, Clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))}
	require.NoError(t, s.Certs())
	require.NoError(t, s.Secrets())
	first := files(t, dir)
	require.NoError(t, s.Certs())
	require.NoError(t, s.Secrets())
	require.Equal(t, first, files(t, dir))
}

func TestSetup_Certs_serviceNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, setup.Setup{Dir: dir, Clock: clock.Real()}.Certs())
	for _, name := range setup.Identities() {
		f, err := pki.OpenFiles(filepath.Join(dir, "tls", name+".pem"), filepath.Join(dir, "tls", name+"-key.pem"), filepath.Join(dir, "tls", "ca.pem"))
		require.NoError(t, err)
		require.Equal(t, name, f.Current().Name)
	}
}

func TestSetup_Secrets_keyringIsValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, setup.Setup{Dir: dir, Clock: clock.Real()}.Secrets())
	raw, err := os.ReadFile(filepath.Join(dir, "secrets", "keyring"))
	require.NoError(t, err)
	_, err = secret.ParseKeyring(secret.New(string(raw)))
	require.NoError(t, err)
}

func TestSetup_Certs_renewsInLastThird(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clk := clock.NewFake(clock.Real().Now())
	s := setup.Setup{Dir: dir, Clock: clk}
	require.NoError(t, s.Certs())
	first := files(t, dir)
	clk.Advance(pki.DefaultServiceLife / 2)
	require.NoError(t, s.Certs())
	require.Equal(t, first, files(t, dir), "certificates with half of their life left must be kept")
	clk.Advance(pki.DefaultServiceLife / 4)
	require.NoError(t, s.Certs())
	later := files(t, dir)
	for _, name := range setup.Identities() {
		path := filepath.Join(dir, "tls", name+".pem")
		require.NotEqual(t, first[path], later[path], name)
	}
	ca := filepath.Join(dir, "tls", "ca.pem")
	require.Equal(t, first[ca], later[ca], "the CA must stay; otherwise the processes would not trust each other")
}

func TestSetup_repairsInterruptedRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := setup.Setup{Dir: dir, Clock: clock.Real()}
	require.NoError(t, s.Certs())
	require.NoError(t, s.Secrets())
	first := files(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "tls", "jobs-key.pem")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls", "auth.pem"), []byte("half"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "secrets", "blob-key")))
	require.NoError(t, s.Certs())
	require.NoError(t, s.Secrets())
	for path, text := range files(t, dir) {
		switch filepath.Base(path) {
		case "jobs.pem", "jobs-key.pem", "auth.pem", "auth-key.pem", "blob-key":
			require.NotEqual(t, first[path], text, path)
		default:
			require.Equal(t, first[path], text, path)
		}
	}
	for _, name := range []string{"auth", "jobs"} {
		_, err := pki.OpenFiles(filepath.Join(dir, "tls", name+".pem"), filepath.Join(dir, "tls", name+"-key.pem"), filepath.Join(dir, "tls", "ca.pem"))
		require.NoError(t, err)
	}
}

func TestSetup_Secrets_areUnique(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, setup.Setup{Dir: dir, Clock: clock.Real()}.Secrets())
	seen := map[string]string{}
	for path, text := range files(t, dir) {
		require.NotEmpty(t, text)
		require.Empty(t, seen[text], path)
		seen[text] = path
	}
	require.Len(t, seen, 4)
}

func TestUnusableFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	s := setup.Setup{Dir: file, Clock: clock.Real()}
	require.ErrorContains(t, s.Certs(), "internal CA")
	require.ErrorContains(t, s.Secrets(), "folder for secrets")
	require.ErrorContains(t, s.Database(t.Context(), filepath.Join(file, "absent"), "x"), "read the file with the admin's URL")
}

// adminURL starts a database server and returns a file with the URL of its admin. Each test runs its own server, because
// the roles have the same names as in a real installation.
func adminURL(t *testing.T) string {
	t.Helper()
	bin, err := local.Find("", filepath.Join("..", "..", "..", "..", ".cache", "postgres"))
	require.NoError(t, err)
	data := filepath.Join(t.TempDir(), "pg")
	pgtest.Cluster(t, data)
	server, err := local.Start(t.Context(), local.Config{BinDir: bin, Dir: data, Entropy: rand.Reader})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	file := filepath.Join(t.TempDir(), "admin-url")
	require.NoError(t, os.WriteFile(file, []byte(server.AdminURL().Reveal()+"\n"), 0o600))
	return file
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	dir, admin := t.TempDir(), adminURL(t)
	s := setup.Setup{Dir: filepath.Join(dir, "etc"), Clock: clock.Real()}
	require.NoError(t, s.Database(t.Context(), admin, "signalbox"))
	first := files(t, s.Dir)
	require.NoError(t, s.Database(t.Context(), admin, "signalbox"))
	require.Equal(t, first, files(t, s.Dir), "a second run must not change the password of a role")
	for _, service := range setup.Schemas() {
		url := secret.New(first[filepath.Join(s.Dir, "secrets", service+".database-url")])
		pool, err := pg.Open(t.Context(), pg.Config{URL: url}, service, slog.New(slog.DiscardHandler))
		require.NoError(t, err, "%s: Open must accept the server's durability settings", service)
		_, err = pool.Exec(t.Context(), `CREATE TABLE thing (n int)`)
		require.Error(t, err, "%s: the serving role must not be able to create tables", service)
		pool.Close()
		owner := secret.New(first[filepath.Join(s.Dir, "secrets", service+".database-owner-url")])
		require.NoError(t, migrate.Up(t.Context(), owner, service, fstest.MapFS{}))
	}
}
