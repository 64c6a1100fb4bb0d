// Package pgtest gives every test its own Postgres database, with the real
// roles and the real migrations, cloned from a template in tens of milliseconds.
//
// It uses the server in TEST_DATABASE_URL (an admin's URL) if set, otherwise one
// that all test processes of this user share: the first process starts it without
// fsync, and it stops and leaves no data behind once no test has used it for some
// seconds. It never skips: a test without a database fails.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Schema is one schema of the database. Migrations may be nil: the tables that
// every schema has exist anyway.
type Schema struct {
	Name       string
	Migrations fs.FS
}

// DB is the database of one test.
type DB struct {
	// Name is the name of the database.
	Name string

	tb    testing.TB
	admin secret.String
	creds map[string]migrate.Credentials
}

// rolePrefix keeps the test roles apart from those of a real installation that
// may use the server of TEST_DATABASE_URL.
const rolePrefix = "signalbox_test_"

// limit bounds the creation of one database, including the start of the server.
const limit = 2 * time.Minute

// New creates a database with these schemas and drops it when the test ends.
func New(tb testing.TB, schemas ...Schema) *DB {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	admin, release, err := server(ctx)
	require.NoError(tb, err, "start Postgres for the test")
	tb.Cleanup(release)
	db, err := clone(ctx, admin, schemas)
	require.NoError(tb, err, "create a database for the test")
	db.tb = tb
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		require.NoError(tb, drop(ctx, admin, db.Name))
	})
	return db
}

// Pool opens the schema with the role of the service, which may only read and write rows.
// The pool is closed before the database is dropped.
func (db *DB) Pool(schema string) *pgxpool.Pool {
	db.tb.Helper()
	return db.open(pg.Config{URL: db.URL(schema), AllowUnsafe: true}, schema)
}

// OwnerPool opens the schema as its owner, for tests that tamper with tables.
func (db *DB) OwnerPool(schema string) *pgxpool.Pool {
	db.tb.Helper()
	return db.open(pg.Config{URL: db.OwnerURL(schema), AllowUnsafe: true, MaxConns: 2}, schema)
}

func (db *DB) open(cfg pg.Config, schema string) *pgxpool.Pool {
	db.tb.Helper()
	pool, err := pg.Open(Context(db.tb), cfg, schema, slog.New(slog.DiscardHandler))
	require.NoError(db.tb, err)
	db.tb.Cleanup(pool.Close)
	return pool
}

// URL returns the URL of the schema for the role of the service.
func (db *DB) URL(schema string) secret.String { return db.credentials(schema).URL }

// OwnerURL returns the URL of the schema for the role that owns it.
func (db *DB) OwnerURL(schema string) secret.String { return db.credentials(schema).OwnerURL }

// AdminURL returns the URL of the database for the server's superuser.
func (db *DB) AdminURL() secret.String { return db.admin }

func (db *DB) credentials(schema string) migrate.Credentials {
	db.tb.Helper()
	c, ok := db.creds[schema]
	require.True(db.tb, ok, "the database was created without the schema %q", schema)
	return c
}

// Admin returns the superuser's URL of a server, for a test that creates databases or
// roles. The test must drop what it creates.
func Admin(tb testing.TB) secret.String {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	admin, release, err := server(ctx)
	require.NoError(tb, err, "start Postgres for the test")
	tb.Cleanup(release)
	return admin
}

// server returns the admin URL of a running server; release ends its use.
func server(ctx context.Context) (admin secret.String, release func(), err error) {
	if set := os.Getenv("TEST_DATABASE_URL"); set != "" {
		return secret.New(set), func() {}, nil
	}
	return shared(ctx)
}

func names(schemas []Schema) []string {
	out := make([]string, len(schemas))
	for i, s := range schemas {
		out[i] = s.Name
	}
	slices.Sort(out)
	return out
}

// on returns the URL with another database.
func on(admin secret.String, database string) (secret.String, error) {
	u, err := url.Parse(admin.Reveal())
	if err != nil {
		return secret.String{}, errors.New("TEST_DATABASE_URL is not a valid URL; want postgres://role:password@host:port/database")
	}
	u.Path = "/" + database
	return secret.New(u.String()), nil
}

// withAdmin runs fn with a connection to the server.
func withAdmin(ctx context.Context, admin secret.String, fn func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, admin.Reveal())
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return fn(conn)
}
