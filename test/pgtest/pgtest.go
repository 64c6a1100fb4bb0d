// Package pgtest gives each test its own Postgres database with the product's roles and migrations. It
// clones the database from a template within tens of milliseconds.
//
// If TEST_DATABASE_URL contains the URL of an admin, pgtest uses that server. Otherwise all test processes of the
// user share a server, which the first process starts without fsync. The server stops and removes its data when no
// test has used it for some seconds. A test without a database fails; it is never skipped.
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

// Schema is a schema of the database. If Migrations is nil, the schema has only the tables that all schemas
// have.
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

// rolePrefix distinguishes the test roles from the roles of an installation that uses the server of
// TEST_DATABASE_URL.
const rolePrefix = "signalbox_test_"

// limit is the maximum time to create a database, including the start of the server.
const limit = 2 * time.Minute

// New creates a database with the schemas. The database is dropped when the test ends.
func New(tb testing.TB, schemas ...Schema) *DB {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	conn := open(ctx, tb)
	db, err := clone(ctx, conn, schemas)
	require.NoError(tb, err, "create a database for the test")
	db.own(tb, conn)
	return db
}

// Empty creates a database whose schemas have no tables, for tests that apply the migrations themselves. The database is
// dropped when the test ends.
func Empty(tb testing.TB, names ...string) *DB {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	conn := open(ctx, tb)
	db, err := create(ctx, conn, names)
	require.NoError(tb, err, "create a database for the test")
	db.own(tb, conn)
	return db
}

// own drops the database when the test ends.
func (db *DB) own(tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	db.tb = tb
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		require.NoError(tb, drop(ctx, conn, db.Name))
	})
}

// Pool returns a pool for the schema with the role of the service, which may only read and write rows. The
// pool is closed before the database is dropped.
func (db *DB) Pool(schema string) *pgxpool.Pool {
	db.tb.Helper()
	return db.pool(pg.Config{URL: db.URL(schema), AllowUnsafe: true}, schema)
}

// OwnerPool returns a pool for the schema with the role that owns it, for tests that manipulate tables.
func (db *DB) OwnerPool(schema string) *pgxpool.Pool {
	db.tb.Helper()
	return db.pool(pg.Config{URL: db.OwnerURL(schema), AllowUnsafe: true, MaxConns: 2}, schema)
}

func (db *DB) pool(cfg pg.Config, schema string) *pgxpool.Pool {
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
	require.True(db.tb, ok, "the database has no schema %q; pass it to New", schema)
	return c
}

// Admin returns the URL of a server for its superuser, for tests that create databases or roles. The test
// must drop these itself.
func Admin(tb testing.TB) secret.String {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	return adminURL(open(ctx, tb))
}

// open connects to the server as admin and starts the server if necessary. The connection stays open until the test
// ends, so that the test needs only one. Postgres starts a process for each connection.
func open(ctx context.Context, tb testing.TB) *pgx.Conn {
	tb.Helper()
	var conn *pgx.Conn
	var err error
	release := func() {}
	if set := os.Getenv("TEST_DATABASE_URL"); set != "" {
		conn, err = connect(ctx, secret.New(set))
	} else {
		conn, release, err = shared(ctx)
	}
	require.NoError(tb, err, "start Postgres for the test")
	tb.Cleanup(func() {
		pg.CloseConn(context.Background(), conn)
		release()
	})
	return conn
}

func adminURL(conn *pgx.Conn) secret.String { return secret.New(conn.Config().ConnString()) }

func names(schemas []Schema) []string {
	out := make([]string, len(schemas))
	for i, s := range schemas {
		out[i] = s.Name
	}
	slices.Sort(out)
	return out
}

// on returns the URL with the name of another database.
func on(admin secret.String, database string) (secret.String, error) {
	u, err := url.Parse(admin.Reveal())
	if err != nil {
		return secret.String{}, errors.New("TEST_DATABASE_URL is not a valid URL; it must have the form postgres://role:password@host:port/database")
	}
	u.Path = "/" + database
	return secret.New(u.String()), nil
}

// connect opens a connection to the server.
func connect(ctx context.Context, admin secret.String) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, admin.Reveal())
	if err != nil {
		return nil, fmt.Errorf("connect to the test server: %w", err)
	}
	return conn, nil
}
