package pgtest

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

func TestCollect_partOfTheTestsKeepsTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "statements")
	for _, sql := range []string{"SELECT 1", "SELECT 2"} {
		s, err := collect(path, true)
		require.NoError(t, err)
		s.add(sql)
		require.NoError(t, s.file.Close())
	}
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{`"SELECT 1"`, `"SELECT 2"`}, strings.Split(strings.TrimSpace(string(raw)), "\n"))
}

// TestStatements_writesEachOnce also checks that statements are written as in the source, with their named arguments.
func TestStatements_writesEachOnce(t *testing.T) {
	t.Parallel()
	db := New(t, Schema{Name: "jobs"})
	path := filepath.Join(t.TempDir(), "statements")
	require.NoError(t, os.WriteFile(path, []byte("old\n"), 0o600))
	s, err := collect(path, false)
	require.NoError(t, err)
	ctx := pg.WithTracer(t.Context(), s)
	pool, err := pg.Open(ctx, pg.Config{URL: db.OwnerURL("jobs"), AllowUnsafe: true}, "jobs", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	conn, err := pg.Connect(ctx, db.URL("jobs").Reveal(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { pg.CloseConn(t.Context(), conn) })

	for range 2 {
		_, err = pool.Exec(ctx, "SELECT\n\t@n::int", pgx.NamedArgs{"n": 1})
		require.NoError(t, err)
	}
	_, err = conn.Exec(ctx, `SELECT 2`)
	require.NoError(t, err)
	_, err = pool.Exec(ctx, `CREATE TABLE n (n int)`)
	require.NoError(t, err)
	batch := &pgx.Batch{}
	batch.Queue(`SELECT @n::int + 1`, pgx.NamedArgs{"n": 1})
	require.NoError(t, pool.SendBatch(ctx, batch).Close())
	_, err = pool.CopyFrom(ctx, pgx.Identifier{"n"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}}))
	require.NoError(t, err)

	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	want := []string{"SELECT\n\t@n::int", `SELECT 2`, `CREATE TABLE n (n int)`, `SELECT @n::int + 1`, `COPY "n" (n) FROM STDIN`}
	for line := range strings.Lines(string(raw)) {
		sql, err := strconv.Unquote(strings.TrimSpace(line))
		require.NoError(t, err)
		if sql == "-- ping" {
			continue
		}
		require.NotEmpty(t, want, "%s must be written only once", sql)
		require.Equal(t, want[0], sql)
		want = want[1:]
	}
	require.Empty(t, want)
}
