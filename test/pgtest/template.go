package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// clone creates a database from the template for these schemas. conn is an admin's connection.
func clone(ctx context.Context, conn *pgx.Conn, schemas []Schema) (*DB, error) {
	admin := adminURL(conn)
	key, err := fingerprint(schemas)
	if err != nil {
		return nil, err
	}
	template, err := ensureTemplate(ctx, conn, admin, key, schemas)
	if err != nil {
		return nil, err
	}
	db, err := unmade(ctx, conn)
	if err != nil {
		return nil, err
	}
	// For a small database, file_copy takes half the time of wal_log.
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+db.Name+` TEMPLATE `+template+` STRATEGY file_copy`); err != nil {
		return nil, fmt.Errorf("clone the template: %w", err)
	}
	db.creds, err = migrate.Grant(ctx, conn, bootstrap(db.admin, db.Name, names(schemas)))
	return db, err
}

// create creates a database with the roles of these schemas, without tables. conn is an admin's connection.
func create(ctx context.Context, conn *pgx.Conn, schemas []string) (*DB, error) {
	db, err := unmade(ctx, conn)
	if err != nil {
		return nil, err
	}
	db.creds, err = migrate.Bootstrap(ctx, bootstrap(adminURL(conn), db.Name, schemas))
	return db, err
}

// unmade returns the name and the URL of a new database, which does not exist yet.
func unmade(ctx context.Context, conn *pgx.Conn) (*DB, error) {
	db := &DB{}
	var err error
	if db.Name, err = freshName(ctx, conn); err != nil {
		return nil, err
	}
	db.admin, err = on(adminURL(conn), db.Name)
	return db, err
}

func bootstrap(admin secret.String, database string, schemas []string) migrate.RoleConfig {
	return migrate.RoleConfig{AdminURL: admin, Database: database, Services: schemas, Seed: seed(admin), Prefix: rolePrefix}
}

// seed returns the seed for the passwords of the roles. It is the same in all tests of a server, because
// the tests share the roles.
func seed(admin secret.String) secret.String {
	password := ""
	if u, err := url.Parse(admin.Reveal()); err == nil {
		password, _ = u.User.Password()
	}
	sum := sha256.Sum256([]byte("signalbox pgtest\x00" + password))
	return secret.New(hex.EncodeToString(sum[:]))
}

func fingerprint(schemas []Schema) (string, error) {
	h := sha256.New()
	for _, s := range schemas {
		f, err := migrate.Fingerprint(s.Name, s.Migrations)
		if err != nil {
			return "", fmt.Errorf("read the migrations of %s: %w", s.Name, err)
		}
		_, _ = fmt.Fprintln(h, s.Name, f)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// ensureTemplate creates the template if it does not exist. It builds the template under another name and
// renames it, so an existing template is always complete.
func ensureTemplate(ctx context.Context, conn *pgx.Conn, admin secret.String, key string, schemas []Schema) (string, error) {
	name := "sbtpl_" + key
	if there, err := exists(ctx, conn, name); there || err != nil {
		return name, err
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, lockKey(name)); err != nil {
		return "", fmt.Errorf("wait for the template: %w", err)
	}
	defer func() { _, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, lockKey(name)) }()
	if there, err := exists(ctx, conn, name); there || err != nil {
		return name, err
	}
	if err := sweep(ctx, conn); err != nil {
		return "", err
	}
	building := "sbbld_" + key
	if err := drop(ctx, conn, building); err != nil {
		return "", err
	}
	creds, err := migrate.Bootstrap(ctx, bootstrap(admin, building, names(schemas)))
	if err != nil {
		return "", fmt.Errorf("create the template: %w", err)
	}
	for _, s := range schemas {
		if err := migrate.Up(ctx, creds[s.Name].OwnerURL, s.Name, s.Migrations); err != nil {
			return "", fmt.Errorf("create the template: %w", err)
		}
	}
	return name, rename(ctx, conn, building, name)
}

// rename renames a database. It retries while another backend uses the database, because a backend exits
// some time after its client has closed the connection.
func rename(ctx context.Context, conn *pgx.Conn, from, to string) error {
	for {
		_, err := conn.Exec(ctx, `ALTER DATABASE `+from+` RENAME TO `+to)
		var pgErr *pgconn.PgError
		if err == nil || !errors.As(err, &pgErr) || pgErr.Code != "55006" {
			return err
		}
		if err := clock.Sleep(ctx, clock.Real(), 10*time.Millisecond); err != nil {
			return fmt.Errorf("rename the template: %w", err)
		}
	}
}

func exists(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	var there bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil {
		return false, fmt.Errorf("find the template: %w", err)
	}
	return there, nil
}

// freshName returns a name that contains the time, so that sweep can find the databases that killed tests
// left behind.
func freshName(ctx context.Context, conn *pgx.Conn) (string, error) {
	var unix int64
	if err := conn.QueryRow(ctx, `SELECT extract(epoch FROM clock_timestamp())::bigint`).Scan(&unix); err != nil {
		return "", fmt.Errorf("read the server's clock: %w", err)
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	return fmt.Sprintf("sbt_%d_%s", unix, hex.EncodeToString(random[:])), nil
}

// sweep drops the databases that are older than an hour and have no connections. Killed tests left them
// behind, and the server of TEST_DATABASE_URL would keep them forever.
func sweep(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `
		SELECT datname FROM pg_database d
		WHERE datname ~ '^sbt_[0-9]+_[0-9a-f]+$'
		  AND split_part(datname, '_', 2)::bigint < extract(epoch FROM clock_timestamp()) - 3600
		  AND NOT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.datid = d.oid)`)
	if err != nil {
		return fmt.Errorf("find leftover databases: %w", err)
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("find leftover databases: %w", err)
	}
	for _, name := range left {
		if _, err := conn.Exec(ctx, `DROP DATABASE IF EXISTS `+name); err != nil {
			return fmt.Errorf("drop the leftover database %s: %w", name, err)
		}
	}
	return nil
}

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`); err != nil {
		return fmt.Errorf("drop the database %s: %w", name, err)
	}
	return nil
}

func lockKey(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum64())
}
