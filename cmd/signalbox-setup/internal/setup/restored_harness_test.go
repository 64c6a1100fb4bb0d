package setup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// restoredHarness is an installation of separate services whose database was restored. The accounts are those of the
// backup.
type restoredHarness struct {
	t   *testing.T
	db  *pgtest.DB
	dir string        // the folder of the installation
	age time.Duration // how long before the stop the entries of the journal were written
}

func newRestoredHarness(t *testing.T, accounts string) *restoredHarness {
	t.Helper()
	files, err := auth.Migrations()
	require.NoError(t, err)
	schemas := []pgtest.Schema{{Name: "auth", Migrations: files}}
	for _, name := range setup.Schemas()[1:] {
		schemas = append(schemas, pgtest.Schema{Name: name})
	}
	h := &restoredHarness{t: t, db: pgtest.New(t, schemas...), dir: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "secrets"), 0o700))
	for _, name := range setup.Schemas() {
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "secrets", name+".database-owner-url"), []byte(h.db.OwnerURL(name).Reveal()), 0o600))
	}
	h.exec("auth", accounts)
	return h
}

func (h *restoredHarness) exec(schema, sql string, args ...any) {
	h.t.Helper()
	_, err := h.db.OwnerPool(schema).Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

// journal writes a journal for each service up to the time stopped. The journal of auth contains the entries, each a
// kind and a subject, in this order. It returns the audit folder.
func (h *restoredHarness) journal(stopped time.Time, entries ...string) string {
	h.t.Helper()
	folder := h.t.TempDir()
	var lines strings.Builder
	for n, entry := range entries {
		kind, subject, _ := strings.Cut(entry, " ")
		fmt.Fprintf(&lines, "\n{\"seq\": %d, \"kind\": %q, \"subject\": %q, \"at\": %q}", n+1, kind, subject, stopped.Add(-h.age).Format(time.RFC3339))
	}
	for _, name := range setup.Schemas() {
		dir := filepath.Join(folder, "revocations", name+"-0")
		require.NoError(h.t, os.MkdirAll(dir, 0o700))
		stamp := fmt.Sprintf(`{"since": "1960-01-01T00:00:00Z", "at": %q}`, stopped.Format(time.RFC3339))
		require.NoError(h.t, os.WriteFile(filepath.Join(dir, "position.json"), []byte(stamp), 0o600))
		if name == "auth" {
			require.NoError(h.t, os.WriteFile(filepath.Join(dir, "1.jsonl"), []byte(lines.String()), 0o600))
		}
	}
	return folder
}

// run runs the command `restored` with a journal that contains the entries.
func (h *restoredHarness) run(entries []string, args ...string) (string, error) {
	h.t.Helper()
	stopped := time.Now().UTC()
	return setUp(h.t, append([]string{"restored", "--dir", h.dir, "--audit-dir", h.journal(stopped, entries...), "--stopped-at", stopped.Format(time.RFC3339)}, args...)...)
}

// restored reports whether the restore of a schema is complete.
func (h *restoredHarness) restored(schema string) (complete bool) {
	h.t.Helper()
	require.NoError(h.t, h.db.Pool(schema).QueryRow(h.t.Context(), `SELECT restored_at IS NOT NULL FROM continuity`).Scan(&complete))
	return complete
}

// admins returns the enabled admins. A star marks those who have a password.
func (h *restoredHarness) admins() []string {
	h.t.Helper()
	rows, err := h.db.Pool("auth").Query(h.t.Context(), `SELECT username || CASE password_hash WHEN '' THEN '' ELSE '*' END
		FROM account WHERE role = 'admin' AND disabled_at IS NULL ORDER BY username`)
	require.NoError(h.t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h.t, err)
	return names
}
