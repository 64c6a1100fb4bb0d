package setup_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestRestored_invalidArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"--audit-dir must name":          {},
		"with --admin":                   {"--audit-dir", dir, "--revoke-all"},
		"read the URL of the owner":      {"--audit-dir", dir, "--dir", dir},
		"read the file with the admin's": {"--audit-dir", dir, "--admin-url-file", filepath.Join(dir, "missing")},
		`unknown argument "now"`:         {"--audit-dir", dir, "now"},
	} {
		_, err := setUp(t, append([]string{"restored"}, args...)...)
		require.ErrorContains(t, err, want)
	}
	for _, args := range [][]string{{"--audit-dir", filepath.Join(dir, "missing")}, {"--stopped-at", "yesterday"}} {
		printed, err := setUp(t, append([]string{"restored"}, args...)...)
		require.Error(t, err)
		require.Contains(t, printed, "invalid value")
	}
}

// The schemas have only the tables that every service has, so there is nothing to revoke.
func TestRestored_separateServices(t *testing.T) {
	t.Parallel()
	var schemas []pgtest.Schema
	for _, name := range setup.Schemas() {
		schemas = append(schemas, pgtest.Schema{Name: name})
	}
	db, dir, journals := pgtest.New(t, schemas...), t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "secrets"), 0o700))
	for _, name := range setup.Schemas() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "secrets", name+".database-owner-url"), []byte(db.OwnerURL(name).Reveal()), 0o600))
	}
	_, err := setUp(t, "restored", "--dir", dir, "--audit-dir", journals)
	require.ErrorContains(t, err, "auth: there is no journal")
	_, err = setUp(t, "restored", "--dir", dir, "--audit-dir", journals, "--revoke-all", "--admin", "root")
	require.ErrorContains(t, err, `find the enabled admin "root"`)
	_, err = db.OwnerPool("auth").Exec(t.Context(), `CREATE TABLE account (id text, username text, role text, disabled_at timestamptz, password_hash text);
		CREATE TABLE oidc_identity (account_id text);
		INSERT INTO account VALUES ('usr_1', 'root', 'admin', NULL, 'hash')`)
	require.NoError(t, err)
	printed, err := setUp(t, "restored", "--dir", dir, "--audit-dir", journals, "--revoke-all", "--admin", "root")
	require.NoError(t, err)
	require.Contains(t, printed, "auth: the backup contains changes up to 1970-01-01T00:00:00Z; 0 revocations after the backup, 0 revoked again")
	for _, name := range setup.Schemas() {
		var restored bool
		require.NoError(t, db.Pool(name).QueryRow(t.Context(), `SELECT restored_at IS NOT NULL FROM continuity`).Scan(&restored))
		require.True(t, restored, name)
	}
}

func TestRestored_namesFolderThatWasRead(t *testing.T) {
	t.Parallel()
	h := newRestoredHarness(t, twoAdmins)
	data, stopped := t.TempDir(), time.Now().UTC()
	admin := filepath.Join(data, "admin-url")
	require.NoError(t, os.WriteFile(admin, []byte(h.db.AdminURL().Reveal()), 0o600))
	args := []string{"restored", "--data", data, "--admin-url-file", admin, "--name", h.db.Name, "--stopped-at", stopped.Format(time.RFC3339)}
	printed, err := setUp(t, args...)
	require.ErrorContains(t, err, "auth: there is no journal")
	require.Contains(t, printed, "Reading the journals in "+filepath.Join(data, "audit")+".\n")
	folder := h.journal(stopped)
	printed, err = setUpWith(t, map[string]string{"SERVICE_AUDIT_DIR": folder}, args...)
	require.NoError(t, err)
	require.Contains(t, printed, "Reading the journals in "+folder+".\n")
}

// Only the database of the registry was restored. The other services still run, so their databases are newer than the
// journal of the registry.
func TestRestored_oneOfTwoDatabases(t *testing.T) {
	t.Parallel()
	h, registry := newRestoredHarness(t, twoAdmins), pgtest.New(t, pgtest.Schema{Name: "registry"})
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "secrets", "registry.database-owner-url"), []byte(registry.OwnerURL("registry").Reveal()), 0o600))
	h.exec("jobs", `UPDATE continuity SET journaled_at = now()`)
	stopped := time.Now().UTC().Add(-time.Hour)
	_, err := setUp(t, "restored", "--dir", h.dir, "--audit-dir", h.journal(stopped), "--stopped-at", stopped.Format(time.RFC3339))
	require.ErrorContains(t, err, "auth: the newest journal ends at")
	require.NotContains(t, err.Error(), "registry: ")
}

func TestRestored_repeatedAfterPartialRun(t *testing.T) {
	t.Parallel()
	h := newRestoredHarness(t, twoAdmins)
	stopped := time.Now().UTC().Add(-time.Hour)
	backup := stopped.Add(-time.Minute)
	h.exec("auth", `UPDATE continuity SET journaled_at = $1`, backup)
	args := []string{"restored", "--dir", h.dir, "--audit-dir", h.journal(stopped, "user usr_b"), "--stopped-at", stopped.Format(time.RFC3339)}
	h.exec("jobs", `ALTER TABLE continuity ADD CHECK (backup_at IS NULL)`)
	printed, err := setUp(t, args...)
	require.ErrorContains(t, err, "jobs: store the time of the backup")
	require.Contains(t, printed, "1 revocations after the backup, 1 revoked again")
	require.False(t, h.restored("auth"), "auth must not start before jobs is settled")
	h.exec("jobs", `ALTER TABLE continuity DROP CONSTRAINT continuity_backup_at_check`)
	for range 2 {
		printed, err = setUp(t, args...)
		require.NoError(t, err)
		require.Contains(t, printed, "auth: the backup contains changes up to "+backup.Format(time.RFC3339)+"; 0 revocations after the backup")
	}
	for _, name := range setup.Schemas() {
		require.True(t, h.restored(name), name)
	}
}
