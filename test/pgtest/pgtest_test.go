package pgtest_test

import (
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func schema(name, table string) pgtest.Schema {
	return pgtest.Schema{Name: name, Migrations: fstest.MapFS{
		"migrations/00001_first.sql": &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE " + table + " (n int PRIMARY KEY);\n")},
	}}
}

func TestEachTestHasItsOwnRows(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("clone", func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t, schema("one", "thing"))
			tag, err := db.Pool("one").Exec(t.Context(), `INSERT INTO thing VALUES (1)`)
			require.NoError(t, err)
			require.EqualValues(t, 1, tag.RowsAffected())
		})
	}
}

func TestAChangedMigrationMakesAnotherTemplate(t *testing.T) {
	t.Parallel()
	_, err := pgtest.New(t, schema("one", "thing")).Pool("one").Exec(t.Context(), `INSERT INTO thing VALUES (1)`)
	require.NoError(t, err)
	_, err = pgtest.New(t, schema("one", "other")).Pool("one").Exec(t.Context(), `INSERT INTO other VALUES (1)`)
	require.NoError(t, err)
}

func TestRolesOfAClone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, schema("one", "thing"), schema("two", "thing"))
	for sql, code := range map[string]string{
		`SELECT n FROM thing`:              "",
		`SELECT n FROM two.thing`:          "42501",
		`CREATE TABLE more (n int)`:        "42501",
		`CREATE TEMP TABLE more (n int)`:   "42501",
		`DROP TABLE thing`:                 "42501",
		`CREATE TABLE public.more (n int)`: "42501",
	} {
		_, err := db.Pool("one").Exec(t.Context(), sql)
		if code == "" {
			require.NoError(t, err, sql)
			continue
		}
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr, sql)
		require.Equal(t, code, pgErr.Code, sql)
	}
}

func TestADatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	name := ""
	t.Run("use", func(t *testing.T) {
		db := pgtest.New(t, schema("one", "thing"))
		name = db.Name
		require.NoError(t, db.Pool("one").Ping(t.Context()))
	})
	var there bool
	err := pgtest.New(t, schema("one", "thing")).OwnerPool("one").
		QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&there)
	require.NoError(t, err)
	require.False(t, there)
}
