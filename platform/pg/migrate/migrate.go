// Package migrate owns what an installation needs in Postgres before its services start: the database, the roles
// (role.go) and the migrations. Migrations update the schema of a service to the version of this binary: first the
// tables that every schema has (event, audit, idempotency and those of River), then the service's own.
//
// It promises:
//   - Bootstrap and Up may run again at any time, concurrently and after a crash;
//   - a server can check with read-only access whether its schema is complete;
//   - the same seed (RoleConfig.Seed) always gives the roles the same passwords, and Postgres receives only the SCRAM
//     verifiers of the passwords;
//   - a role has access only to its own schema;
//   - a migration that waits for a lock delays readers and writers by at most lockTimeout.
package migrate

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

//go:embed migrations/*.sql
var commonFS embed.FS

// ErrBehind is the error of Check for a schema that lacks migrations of this binary. A newer schema is accepted.
var ErrBehind = errors.New("the schema is older than this program; run the migrate command")

// set is a list of migrations and the table that records its version.
type set struct {
	table string
	files fs.FS
}

// sets returns the migrations of a schema: the common tables, then the service's own.
func sets(schema string, files fs.FS) ([]set, error) {
	common, err := rooted(commonFS)
	if err != nil {
		return nil, err
	}
	own, err := rooted(files)
	if err != nil {
		return nil, err
	}
	return []set{{schema + ".goose_common_version", common}, {schema + ".goose_db_version", own}}, nil
}

// rooted returns the folder that contains the *.sql files: migrations/ if it exists, otherwise the root.
func rooted(files fs.FS) (fs.FS, error) {
	if files == nil {
		return embed.FS{}, nil
	}
	if info, err := fs.Stat(files, "migrations"); err == nil && info.IsDir() {
		return fs.Sub(files, "migrations")
	}
	return files, nil
}

// Up updates one schema to the version of this binary, as the role that owns it: the tables that every schema has
// (event, audit, idempotency and those of River), then the files of the service. It waits while another Up runs, does
// nothing if the schema is up to date, and continues an Up that was killed.
//
// A file marked NO TRANSACTION may run twice after a kill. It must therefore first drop what it creates, or create it
// IF NOT EXISTS. Up first drops the invalid indexes that a killed CREATE INDEX CONCURRENTLY has left.
func Up(ctx context.Context, ownerURL secret.String, schema string, files fs.FS) error {
	all, err := sets(schema, files)
	if err != nil {
		return err
	}
	return asOwner(ctx, ownerURL, schema, func(conn *pgx.Conn) error {
		common, err := apply(ctx, conn.Config(), all[0])
		if err != nil {
			return fmt.Errorf("migrate the common tables of schema %s: %w", schema, err)
		}
		queue, err := riverUp(ctx, ownerURL, schema)
		if err != nil {
			return fmt.Errorf("migrate the queue of schema %s: %w", schema, err)
		}
		own, err := apply(ctx, conn.Config(), all[1])
		if err != nil {
			return fmt.Errorf("migrate schema %s: %w", schema, err)
		}
		if common || queue || own {
			return flush(ctx, conn)
		}
		return nil
	})
}

// asOwner calls fn with a connection of the schema's owner. It first takes the migration lock and drops
// the invalid indexes of a killed run.
func asOwner(ctx context.Context, ownerURL secret.String, schema string, fn func(*pgx.Conn) error) error {
	conn, err := pg.Connect(ctx, ownerURL.Reveal(), map[string]string{"search_path": schema})
	if err != nil {
		return fmt.Errorf("connect as the owner of schema %s: %w", schema, err)
	}
	defer pg.CloseConn(ctx, conn)
	unlock, err := pg.AdvisoryLock(ctx, conn, lockKey(schema))
	if err != nil {
		return err
	}
	defer unlock()
	if err := dropInvalid(ctx, conn, schema); err != nil {
		return err
	}
	return fn(conn)
}

// dropInvalid drops the invalid indexes that a killed CREATE INDEX or REINDEX CONCURRENTLY left.
func dropInvalid(ctx context.Context, conn *pgx.Conn, schema string) error {
	rows, err := conn.Query(ctx, `
		SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND NOT i.indisvalid ORDER BY c.relname`, schema)
	if err != nil {
		return fmt.Errorf("find invalid indexes: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("find invalid indexes: %w", err)
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, `DROP INDEX IF EXISTS `+pgx.Identifier{schema, name}.Sanitize()); err != nil {
			return fmt.Errorf("drop the invalid index %s: %w", name, err)
		}
	}
	return nil
}

// riverUp updates the tables of River. It reports whether there was something to update.
func riverUp(ctx context.Context, ownerURL secret.String, schema string) (applied bool, err error) {
	cfg, err := pgxpool.ParseConfig(ownerURL.Reveal())
	if err != nil {
		return false, errors.New("the Postgres URL is not valid")
	}
	pg.RequireSCRAM(&cfg.ConnConfig.Config)
	cfg.MaxConns = 2
	cfg.ConnConfig = withoutFlush(cfg.ConnConfig)
	cfg.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return false, fmt.Errorf("open a pool for the queue: %w", err)
	}
	defer pool.Close()
	migrator, err := riverMigrator(pool, schema)
	if err != nil {
		return false, err
	}
	updated, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err == nil && len(updated.Versions) > 0, err
}

func riverMigrator(pool *pgxpool.Pool, schema string) (*rivermigrate.Migrator[pgx.Tx], error) {
	return rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
}

// Check returns ErrBehind if the schema lacks migrations of this binary. It only reads, so the service's role
// suffices.
func Check(ctx context.Context, pool *pgxpool.Pool, schema string, files fs.FS) error {
	all, err := sets(schema, files)
	if err != nil {
		return err
	}
	for _, s := range all {
		want, err := newest(s.files)
		if err != nil {
			return err
		}
		have, err := reached(ctx, pool, `SELECT coalesce(max(version_id), 0) FROM `+s.table+` WHERE is_applied`, want)
		if err != nil {
			return fmt.Errorf("read the version of %s: %w", s.table, err)
		}
		if have < want {
			return fmt.Errorf("%w (%s has version %d, but must have at least %d)", ErrBehind, s.table, have, want)
		}
	}
	migrator, err := riverMigrator(pool, schema)
	if err != nil {
		return err
	}
	versions := migrator.AllVersions()
	want := int64(versions[len(versions)-1].Version)
	have, err := reached(ctx, pool, `SELECT coalesce(max(version), 0) FROM `+pgx.Identifier{schema}.Sanitize()+`.river_migration`, want)
	if err != nil {
		return fmt.Errorf("read the version of the queue: %w", err)
	}
	if have < want {
		return fmt.Errorf("%w (the queue has version %d, but must have at least %d)", ErrBehind, have, want)
	}
	return nil
}

// undefinedTable is the SQLSTATE of a statement that reads a missing table.
const undefinedTable = "42P01"

// reached returns the version that the given query selects. It returns 0 if the table is missing, or if want is 0.
func reached(ctx context.Context, pool *pgxpool.Pool, sql string, want int64) (int64, error) {
	if want == 0 {
		return 0, nil
	}
	var have int64
	err := pool.QueryRow(ctx, sql).Scan(&have)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == undefinedTable {
		return 0, nil
	}
	return have, err
}

func newest(files fs.FS) (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list the migrations: %w", err)
	}
	var last int64
	for _, name := range names {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("parse the number of migration %s: %w", name, err)
		}
		last = max(last, v)
	}
	return last, nil
}

// Reindex rebuilds the indexes of the job queue, which grow too large over time. It does not block writers. The
// `migrate` command calls it: River's own reindexer would need the right to change tables.
func Reindex(ctx context.Context, ownerURL secret.String, schema string) error {
	return asOwner(ctx, ownerURL, schema, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `REINDEX TABLE CONCURRENTLY `+pgx.Identifier{schema, "river_job"}.Sanitize()); err != nil {
			return fmt.Errorf("reindex the queue of schema %s: %w", schema, err)
		}
		return nil
	})
}

// Fingerprint returns a hash of everything that Up and Bootstrap create in a schema. Schemas with equal fingerprints
// are equal. pgtest uses it as the key of its template databases.
func Fingerprint(schema string, files fs.FS) (string, error) {
	all, err := sets(schema, files)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, s := range all {
		names, err := fs.Glob(s.files, "*.sql")
		if err != nil {
			return "", fmt.Errorf("list the migrations: %w", err)
		}
		slices.Sort(names)
		for _, name := range names {
			text, err := fs.ReadFile(s.files, name)
			if err != nil {
				return "", fmt.Errorf("read the migration: %w", err)
			}
			_, _ = fmt.Fprintf(h, "%s %s %d\n%s\n", s.table, name, len(text), text)
		}
	}
	_, _ = fmt.Fprintln(h, Grants(schema, "role", "owner"))
	migrator, err := riverMigrator(nil, schema)
	if err != nil {
		return "", err
	}
	for _, v := range migrator.AllVersions() {
		_, _ = fmt.Fprintln(h, v.Version, v.SQLUp)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func lockKey(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("signalbox migrate " + name))
	return int64(h.Sum64())
}
