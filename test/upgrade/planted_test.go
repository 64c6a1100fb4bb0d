package upgrade

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// earlier is the only migration of the previous version in tests of the check.
const earlier = `-- +goose Up
CREATE TABLE job (id text PRIMARY KEY, state text NOT NULL CHECK (state IN ('a', 'b')), kind text NOT NULL CHECK (kind IN ('x', 'y')),
	name text, title text, size bigint, note text, spare text, priority int NOT NULL DEFAULT 0, owner text CHECK (owner IS NOT NULL), mark text, weight int, label text NOT NULL);
CREATE TABLE old (id text PRIMARY KEY);
CREATE TABLE unused (id text PRIMARY KEY);
CREATE TABLE other (weight int);
`

// source has the statements of the previous version in tests of the check.
const source = `package store

const columns = "id, name"

func f(q pool, table, where string) {
	q.Query(ctx, "SELECT "+columns+" FROM job")
	q.Query(ctx, "SELECT id FROM old")
	q.Query(ctx, "SELECT * FROM job WHERE id = @id")
	q.Query(ctx, "SELECT title FROM "+table+" WHERE id = $1")
	q.Exec(ctx, "INSERT INTO job (id, state) VALUES ($1, $2)")
	q.Exec(ctx, "UPDATE unused SET id = $1")
	q.Query(ctx, "SELECT id FROM job WHERE weight > 0 AND "+where)
}
`

// tree writes a tree with the migrations of a version, and with the source.
func tree(t *testing.T, migrations map[string]string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "services", "jobs", "internal", "db", "migrations")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, text := range migrations {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "services", "jobs", "store.go"), []byte(source), 0o600))
	common := filepath.Join("platform", "pg", "migrate", "migrations")
	require.NoError(t, os.CopyFS(filepath.Join(root, common), os.DirFS(filepath.Join(top, common))))
	return root
}

// findings applies a migration after that of the previous version.
func findings(t *testing.T, migration string) []string {
	t.Helper()
	old := tree(t, map[string]string{"00001_first.sql": earlier})
	now := tree(t, map[string]string{"00001_first.sql": earlier, "00002_next.sql": "-- +goose Up\n" + migration})
	require.Empty(t, edited(t, old, now))
	all := statements(t, old)
	d := start(t, old, schemas(t, old))
	require.Empty(t, d.fill(t))
	before := d.look(t, all)
	require.Equal(t, 5, before.prepared())
	d.migrate(t, now)
	return compare(before, d.look(t, all), all)
}

func TestCompare_findsWhatThePreviousVersionCannotDo(t *testing.T) {
	t.Parallel()
	found := findings(t, `
ALTER TABLE job DROP COLUMN name, DROP COLUMN title, ADD COLUMN added text;
ALTER TABLE old RENAME TO newer;
DELETE FROM job WHERE id IN (SELECT id FROM job LIMIT 1);
UPDATE job SET note = id, mark = 'm';
ALTER TABLE job ALTER COLUMN size TYPE int USING 1, ALTER COLUMN note SET NOT NULL, ALTER COLUMN priority DROP DEFAULT;
ALTER TABLE job DROP CONSTRAINT job_kind_check;
UPDATE job SET kind = 'x';
ALTER TABLE job ADD CONSTRAINT job_kind_check CHECK (kind IN ('x', 'z'));
ALTER TABLE job ADD CONSTRAINT short CHECK (length(spare) < 1000);
CREATE UNIQUE INDEX one_mark ON job (mark, id);
ALTER TABLE job ADD COLUMN needed text NOT NULL DEFAULT '';
ALTER TABLE job ALTER COLUMN needed DROP DEFAULT;
ALTER TABLE job DROP COLUMN weight, ALTER COLUMN label DROP NOT NULL;
CREATE UNIQUE INDEX one_label ON job (lower(label));
CREATE TRIGGER each BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
REVOKE UPDATE ON unused FROM PUBLIC;
DO $$BEGIN EXECUTE 'REVOKE UPDATE ON unused FROM ' || replace(current_user, '_owner', ''); END$$;
`)
	for i, begin := range []string{
		"jobs.job.each: the constraint is new: CREATE TRIGGER",
		"jobs.job.job_kind_check: the constraint was CHECK ((kind = ANY (ARRAY['x'::text, 'y'::text]))) and is ",
		"jobs.job.label: the column may be NULL now",
		"jobs.job.needed: the new column is NOT NULL without a default",
		"jobs.job.note: the column is NOT NULL now",
		"jobs.job.one_label: the constraint is new: ",
		"jobs.job.one_mark: the constraint is new: ",
		"jobs.job.priority: the column has no default any more",
		"jobs.job.short: the constraint is new: CHECK ",
		"jobs.job.size: the type was bigint and is integer",
		"jobs.job: 1 of 2 rows are left",
		`services/jobs/store.go:11: ERROR: permission denied for table unused`,
		`services/jobs/store.go:12: weight is gone, and the statement may use it: SELECT id FROM job`,
		`services/jobs/store.go:6: ERROR: column "name" does not exist`,
		`services/jobs/store.go:7: ERROR: relation "old" does not exist`,
		"services/jobs/store.go:8: the types were ",
		"services/jobs/store.go:9: title is gone, and the statement may use it: SELECT title FROM ...",
	} {
		require.Greater(t, len(found), i, begin)
		require.Equal(t, begin, found[i][:min(len(begin), len(found[i]))], "%q", found)
	}
	require.Len(t, found, 17)
}

// What is added, widened, or dropped although nothing uses it, does not matter to the previous version.
func TestCompare_acceptsWhatThePreviousVersionCanDo(t *testing.T) {
	t.Parallel()
	require.Empty(t, findings(t, `
CREATE TABLE more (id text PRIMARY KEY, job_id text REFERENCES job (id));
ALTER TABLE unused ADD COLUMN added text CHECK (added <> ''), ADD COLUMN count int NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX added_once ON unused (added);
ALTER TABLE job DROP CONSTRAINT job_kind_check;
ALTER TABLE job ADD CONSTRAINT job_kind_check CHECK (kind IN ('x', 'w', 'y'));
UPDATE job SET owner = id;
ALTER TABLE job ALTER COLUMN owner SET NOT NULL;
`))
}

func TestPrevious_allowedFindings(t *testing.T) {
	t.Parallel()
	const hash = "0123456789012345678901234567890123456789"
	p := readPrevious(t, "# comment\n"+hash+"\njobs.job.short # shorter ones only\njobs.job.none # not needed\n")
	require.Equal(t, hash, p.commit)
	require.Equal(t, []string{"jobs.job.shorter: new", "deploy/previous: this line is not needed: jobs.job.none"},
		p.without([]string{"jobs.job.short: new", "jobs.job.shorter: new"}))
}

func TestEdited_findsMigrationsThatWereApplied(t *testing.T) {
	t.Parallel()
	old := tree(t, map[string]string{"00001_first.sql": earlier, "00002_a.sql": "-- +goose Up\n-- A comment.\nSELECT 1;\n", "00003_b.sql": "SELECT 2;\n"})
	now := tree(t, map[string]string{"00001_first.sql": earlier + "SELECT 3;\n", "00002_a.sql": "-- +goose Up\n-- Another.\nSELECT 1;\n"})
	const dir = "services/jobs/internal/db/migrations/"
	require.Equal(t, []string{dir + "00001_first.sql", dir + "00003_b.sql"}, edited(t, old, now))
}
