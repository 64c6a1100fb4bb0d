package layout

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lintMigrations runs scripts/migration-lint.sh. It returns the output, and whether the script accepted the files.
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
	for _, planted := range []struct{ rule, statement string }{
		{"require-concurrent-index-creation", `CREATE INDEX job_name ON job (name);`},
		{"require-concurrent-index-deletion", `DROP INDEX job_name;`},
		{"constraint-missing-not-valid", `ALTER TABLE job ADD CONSTRAINT positive CHECK (priority > 0);`},
		{"adding-foreign-key-constraint", `ALTER TABLE job ADD FOREIGN KEY (run_id) REFERENCES run (id);`},
		{"disallowed-unique-constraint", `ALTER TABLE job ADD CONSTRAINT one UNIQUE (name);`},
		{"adding-required-field", `ALTER TABLE job ADD COLUMN note text NOT NULL;`},
		{"adding-not-nullable-field", `ALTER TABLE job ALTER COLUMN note SET NOT NULL;`},
		{"changing-column-type", `ALTER TABLE job ALTER COLUMN priority TYPE bigint;`},
		{"renaming-column", `ALTER TABLE job RENAME COLUMN name TO title;`},
		{"ban-drop-column", `ALTER TABLE job DROP COLUMN name;`},
		{"rows-rewritten", `UPDATE job SET name = '' WHERE name IS NULL;`},
		{"rows-rewritten", `DELETE FROM event;`},
		{"rows-rewritten", `WITH old AS (SELECT id FROM job) UPDATE job SET name = '' FROM old WHERE old.id = job.id;`},
		{"table-locked", `LOCK TABLE job;`},
		{"table-locked", `TRUNCATE event;`},
		{"table-locked", `CLUSTER job USING job_pkey;`},
		{"table-locked", `REFRESH MATERIALIZED VIEW totals;`},
		{"table-rewritten", `ALTER TABLE job ADD COLUMN number bigserial;`},
		{"table-rewritten", `ALTER TABLE job ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY;`},
		{"table-rewritten", `ALTER TABLE job SET LOGGED;`},
		{"do-block", "-- +goose StatementBegin\nDO $$\nBEGIN\n\tALTER TABLE job ALTER COLUMN name SET NOT NULL;\nEND\n$$;\n-- +goose StatementEnd"},
	} {
		t.Run(planted.rule, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "00099_planted.sql")
			require.NoError(t, os.WriteFile(file, []byte("-- +goose Up\n"+planted.statement+"\n"), 0o600))
			out, ok := lintMigrations(t, file)
			require.False(t, ok, "the linter must reject %s", planted.statement)
			require.Contains(t, out, planted.rule)
			line := 2 + strings.Count(planted.statement[:strings.LastIndex(planted.statement, "DO")+1], "\n")
			require.Contains(t, out, fmt.Sprintf("%s:%d:", file, line), "the report must name the line")
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
		"function":   "-- +goose Up\n-- +goose StatementBegin\nCREATE FUNCTION clear() RETURNS void LANGUAGE sql AS $$\nUPDATE job SET name = '';\n$$;\n-- +goose StatementEnd\n",
		"check":      "-- +goose Up\n-- +goose StatementBegin\nDO $$\nBEGIN\n\tRAISE EXCEPTION 'no';\nEND\n$$;\n-- +goose StatementEnd\n",
		"permitted":  "-- +goose Up\n-- migration-lint: the table has one row\nUPDATE epoch SET n = n + 1;\n",
		"down":       "-- +goose Up\nALTER TABLE job ADD COLUMN note text;\n-- +goose Down\nALTER TABLE job DROP COLUMN note;\n",
	} {
		file := filepath.Join(t.TempDir(), "00099_planted.sql")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, ok := lintMigrations(t, file)
		require.True(t, ok, "%s: %s", name, out)
	}
}

// TestMigrationBaseline_namesExistingFilesOnly requires that the baseline does not grow, because the linter skips the
// migrations that the baseline names.
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
