package upgrade

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// database has the schemas of the previous version, and after migrate those of this version.
type database struct {
	*pgtest.DB

	names []string
}

// start creates a database with the migrations below root. The tables of River are those of this version's library.
func start(t *testing.T, root string, names []string) *database {
	t.Helper()
	d := &database{DB: pgtest.Empty(t, names...), names: names}
	for _, name := range names {
		d.apply(t, name, "goose_common_version", filepath.Join(root, "platform", "pg", "migrate", "migrations"))
		pool, err := pgxpool.New(t.Context(), d.OwnerURL(name).Reveal())
		require.NoError(t, err)
		river, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: name})
		require.NoError(t, err)
		_, err = river.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
		require.NoError(t, err)
		pool.Close()
		d.apply(t, name, "goose_db_version", migrations(root, name))
	}
	return d
}

func migrations(root, name string) string {
	return filepath.Join(root, "services", name, "internal", "db", "migrations")
}

// apply applies the goose files of a folder to a schema.
func (d *database) apply(t *testing.T, name, table, dir string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(d.OwnerURL(name).Reveal())
	require.NoError(t, err)
	db := stdlib.OpenDB(*cfg)
	p, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS(dir), goose.WithTableName(name+"."+table), goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = p.Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// migrate applies the migrations below root, as an upgrade does.
func (d *database) migrate(t *testing.T, root string) {
	t.Helper()
	for _, name := range d.names {
		files := os.DirFS(migrations(root, name))
		require.NoError(t, migrate.Up(t.Context(), d.OwnerURL(name), name, files), "migrate the rows of the previous version")
	}
}

// open opens a connection that uses the schema.
func open(t *testing.T, url secret.String, schema string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url.Reveal())
	require.NoError(t, err)
	cfg.RuntimeParams["search_path"] = schema
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func rows[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	found, err := conn.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[T])
	require.NoError(t, err)
	return all
}
