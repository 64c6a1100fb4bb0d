package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lintMigrations runs scripts/migration-lint.sh and returns its output, and whether it found nothing.
func lintMigrations(t *testing.T, files ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(t), "scripts", "migration-lint.sh"), files...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func TestMigrations_lockNoTableForLong(t *testing.T) {
	t.Parallel()
	out, ok := lintMigrations(t)
	require.True(t, ok, out)
}

func TestMigrationLint_findsLockingStatements(t *testing.T) {
	t.Parallel()
	for rule, statement := range map[string]string{
		"require-concurrent-index-creation": `CREATE INDEX job_name ON job (name);`,
		"require-concurrent-index-deletion": `DROP INDEX job_name;`,
		"constraint-missing-not-valid":      `ALTER TABLE job ADD CONSTRAINT positive CHECK (priority > 0);`,
		"adding-foreign-key-constraint":     `ALTER TABLE job ADD FOREIGN KEY (run_id) REFERENCES run (id);`,
		"disallowed-unique-constraint":      `ALTER TABLE job ADD CONSTRAINT one UNIQUE (name);`,
		"adding-required-field":             `ALTER TABLE job ADD COLUMN note text NOT NULL;`,
		"adding-not-nullable-field":         `ALTER TABLE job ALTER COLUMN note SET NOT NULL;`,
		"changing-column-type":              `ALTER TABLE job ALTER COLUMN priority TYPE bigint;`,
		"renaming-column":                   `ALTER TABLE job RENAME COLUMN name TO title;`,
		"ban-drop-column":                   `ALTER TABLE job DROP COLUMN name;`,
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "00099_planted.sql")
			require.NoError(t, os.WriteFile(file, []byte("-- +goose Up\n"+statement+"\n"), 0o600))
			out, ok := lintMigrations(t, file)
			require.False(t, ok, "the statement was not found")
			require.Contains(t, out, rule)
			require.Contains(t, out, file+":2:", "the report names the line")
		})
	}
}

func TestMigrationLint_acceptsStatementsThatDoNotLock(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"index":      "-- +goose NO TRANSACTION\n-- +goose Up\nCREATE INDEX CONCURRENTLY IF NOT EXISTS job_name ON job (name);\n",
		"new table":  "-- +goose Up\nCREATE TABLE note (id text PRIMARY KEY, body text NOT NULL);\nCREATE INDEX note_body ON note (body);\n",
		"constraint": "-- +goose Up\nALTER TABLE job ADD CONSTRAINT positive CHECK (priority > 0) NOT VALID;\n",
		"validation": "-- +goose Up\nALTER TABLE job VALIDATE CONSTRAINT positive;\n",
		"column":     "-- +goose Up\nALTER TABLE job ADD COLUMN note text NOT NULL DEFAULT '';\n",
		"down":       "-- +goose Up\nALTER TABLE job ADD COLUMN note text;\n-- +goose Down\nALTER TABLE job DROP COLUMN note;\n",
	} {
		file := filepath.Join(t.TempDir(), "00099_planted.sql")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, ok := lintMigrations(t, file)
		require.True(t, ok, "%s: %s", name, out)
	}
}

// The baseline must not grow: a migration that is named in it is not checked.
func TestMigrationBaseline_namesExistingFilesOnly(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(top(), "scripts", "migration-baseline.txt"))
	require.NoError(t, err)
	names := strings.Fields(string(raw))
	require.Len(t, names, 55)
	for _, name := range names {
		require.FileExists(t, filepath.Join(top(), name))
	}
}
