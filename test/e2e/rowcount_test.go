package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// database connects to the installation's database as the superuser, to check data that the API does not
// show.
func database(ctx context.Context, t *testing.T, s *testenv.Installation) *pgx.Conn {
	t.Helper()
	dir := s.DataFolder("postgres", "postgres")
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	require.NoError(t, err)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	// The fourth line of the file is the port.
	lines := strings.Split(string(pid), "\n")
	require.Greater(t, len(lines), 4)
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))),
		Host: "127.0.0.1:" + lines[3], Path: "/signalbox",
	}
	conn, err := pgx.Connect(ctx, u.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	return conn
}

// countRows returns the number of rows of every table except the audit tables, and the number of stored
// objects.
func countRows(ctx context.Context, t *testing.T, s *testenv.Installation, conn *pgx.Conn) map[string]int64 {
	t.Helper()
	rows, err := conn.Query(ctx, `
		SELECT table_schema, table_name FROM information_schema.tables
		WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')
		  AND table_name <> 'audit' AND table_name NOT LIKE 'audit\_%'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (pgx.Identifier, error) {
		var schema, name string
		err := row.Scan(&schema, &name)
		return pgx.Identifier{schema, name}, err
	})
	require.NoError(t, err)
	require.Greater(t, len(tables), 30, "the five schemas must have more than 30 tables")
	counts := map[string]int64{"objects": int64(len(objects(t, s)))}
	for _, table := range tables {
		var n int64
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM "+table.Sanitize()).Scan(&n))
		counts[table.Sanitize()] = n
	}
	return counts
}

// settledCounts returns the counts of countRows once they have not changed for a second. By then, all work of earlier
// requests has ended.
func settledCounts(ctx context.Context, t *testing.T, s *testenv.Installation, conn *pgx.Conn) map[string]int64 {
	t.Helper()
	last := countRows(ctx, t, s, conn)
	require.Eventually(t, func() bool {
		now := countRows(ctx, t, s, conn)
		same := fmt.Sprint(now) == fmt.Sprint(last)
		last = now
		return same
	}, time.Minute, time.Second, "the row counts keep changing")
	return last
}

// objects returns the paths of all files of the object store.
func objects(t *testing.T, s *testenv.Installation) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(s.DataFolder("objects", "lib/objects"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			found = append(found, path)
		}
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, found, "at least the recipes must be stored")
	return found
}
