package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files below a new folder and returns the folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

// ran returns the content of a file in which pgtest stores the statements that ran.
func ran(statements ...string) string {
	var b strings.Builder
	for _, s := range statements {
		b.WriteString(strconv.Quote(s) + "\n")
	}
	return b.String()
}

const store = "package job\n" + `
import "github.com/signalbox-dev/signalbox/platform/access"

const columns = "id, name"

func load(q querier, table, id string) {
	q.QueryRow(ctx, "SELECT "+columns+" FROM job WHERE "+access.Visible+" AND id = $4", id)
	q.Exec(ctx, "DELETE FROM "+quote(table)+" WHERE id = $1", id)
	q.Exec(ctx, fmt.Sprintf("UPDATE %[1]s SET n = n + 1 WHERE %s = $1", table, id))
	sql := "SELECT count(*) FROM job"
	other(text("INSERT INTO job DEFAULT VALUES") + "x")
	log("SELECTION of a node", "UPDATE")
	q.Query(ctx, "SELECT name FROM job WHERE "+where)
	load(q, "id = $1 FOR SHARE")
}
`

// texts are the statements of the constant store as they run.
var texts = []string{
	"SELECT id, name FROM job WHERE (owner = current_user) AND id = $4", `DELETE FROM "job" WHERE id = $1`,
	"UPDATE job SET n = n + 1 WHERE id = $1", "SELECT count(*) FROM job WHERE id > $1", "INSERT INTO job DEFAULT VALUES",
	"SELECT name FROM job WHERE id = $1 FOR SHARE",
}

// findings runs check on a tree whose store has this source. ran maps the names of files of pgtest to their content.
func findings(t *testing.T, source, allow string, ran map[string]string) []string {
	t.Helper()
	root := tree(t, map[string]string{
		"services/job/store.go":      source,
		"services/job/store_test.go": "package job\n\nconst never = `SELECT 1`\n",
		"platform/access/owner.go":   "package access\n\nconst Visible = `(owner = current_user)`\n",
		"allow.txt":                  allow,
	})
	_, found, err := check(root, tree(t, ran), filepath.Join(root, "allow.txt"))
	require.NoError(t, err)
	for i, f := range found {
		found[i] = strings.TrimPrefix(f, root+"/")
	}
	return found
}

func TestCheck_reportsEachUnrunStatement(t *testing.T) {
	t.Parallel()
	require.Empty(t, findings(t, store, "", map[string]string{"services%2Fjob": ran(texts...)}))
	lines := [][]string{{"8"}, {"9"}, {"10"}, {"11"}, {"12"}, {"14", "15"}}
	for i := range texts {
		less := append(append([]string{}, texts[:i]...), texts[i+1:]...)
		found := findings(t, store, "", map[string]string{"services%2Fjob": ran(less...)})
		require.Len(t, found, len(lines[i]))
		for j, line := range lines[i] {
			require.Contains(t, found[j], "services/job/store.go:"+line+": no test runs ")
		}
	}
}

// A statement that ran must not count as a run of a shorter statement with which it begins.
func TestCheck_longerStatementDoesNotCount(t *testing.T) {
	t.Parallel()
	longer := append([]string{}, texts...)
	longer[0] += " FOR UPDATE"
	found := findings(t, store, "", map[string]string{"services%2Fjob": ran(longer...)})
	require.Equal(t, []string{"services/job/store.go:8: no test runs SELECT id, name FROM job WHERE (owner = current_user) AND id = $4"}, found)
}

func TestCheck_ignoresFilesOfRemovedPackages(t *testing.T) {
	t.Parallel()
	found := findings(t, store, "", map[string]string{"services%2Fjob": ran(texts[1:]...), "services%2Fgone": ran(texts[0])})
	require.Len(t, found, 1)
}

func TestCheck_exceptions(t *testing.T) {
	t.Parallel()
	allow := "# comment\nservices/job/store.go: SELECT count(*) # a reason\nservices/job/store.go: SELECT id # another\n"
	found := findings(t, store, allow, map[string]string{"services%2Fjob": ran(append(texts[:3:3], texts[5])...)})
	require.Len(t, found, 2)
	require.Contains(t, found[0], "services/job/store.go:12: no test runs INSERT INTO job")
	require.Contains(t, found[1], "this exception is not needed: services/job/store.go: SELECT id")
}

func TestCheck_emptyFolderIsAnError(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"allow.txt": ""})
	_, _, err := check(root, t.TempDir(), filepath.Join(root, "allow.txt"))
	require.ErrorContains(t, err, "has no statements")
	_, _, err = check(root, filepath.Join(root, "missing"), filepath.Join(root, "allow.txt"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPrintStatements(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, printStatements(&out, tree(t, map[string]string{"services/job/store.go": store})))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 7)
	require.JSONEq(t, `{"path":"services/job/store.go","line":9,"pieces":["DELETE FROM "," WHERE id = $1"]}`, lines[1])
}
