package migrate

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// duplicateObject is the SQLSTATE of a statement that creates an existing object.
const duplicateObject = "42710"

// ensureDatabase creates the database unless it exists.
func ensureDatabase(ctx context.Context, admin *pgx.Conn, name string) error {
	var exists bool
	if err := admin.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&exists); err != nil {
		return fmt.Errorf("find database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	if _, err := admin.Exec(ctx, `CREATE DATABASE `+ident(name)+` ENCODING 'UTF8' TEMPLATE template0`); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// ensureExtension creates the extension pg_trgm, whose indexes support searches for a part of a text. Postgres includes
// the extension. The owner of a database may create it; the roles of the services may not.
func ensureExtension(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public`); err != nil {
		return fmt.Errorf("create the extension pg_trgm: %w; if the extension is missing, install the contrib package of the Postgres server", err)
	}
	return nil
}

// ensureRole creates or updates a role that may only log in. It sends only the SCRAM
// verifier to the server, so the password does not appear in statement logs.
func ensureRole(ctx context.Context, conn *pgx.Conn, role, password, salt string) error {
	verifier, err := scramVerifier(password, salt)
	if err != nil {
		return err
	}
	const plain = ` LOGIN NOCREATEDB NOCREATEROLE NOINHERIT PASSWORD `
	_, err = conn.Exec(ctx, `CREATE ROLE `+ident(role)+plain+quote(verifier))
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == duplicateObject {
		_, err = conn.Exec(ctx, `ALTER ROLE `+ident(role)+plain+quote(verifier))
	}
	if err != nil {
		return fmt.Errorf("create role %s: %w", role, err)
	}
	return nil
}

// adopt makes the admin a member of a role that it created. An admin that is not a superuser needs the membership to
// create the role's schema and to set its default privileges.
func adopt(ctx context.Context, conn *pgx.Conn, role string) error {
	var member bool
	if err := conn.QueryRow(ctx, `SELECT pg_has_role(current_user, $1, 'USAGE')`, role).Scan(&member); err != nil {
		return fmt.Errorf("check the membership in role %s: %w", role, err)
	}
	if member {
		return nil
	}
	if _, err := conn.Exec(ctx, `GRANT `+ident(role)+` TO CURRENT_USER`); err != nil {
		return fmt.Errorf("become a member of role %s: %w", role, err)
	}
	return nil
}

// Grants returns the statements that create a schema and grant its roles access. Their effects are stored in the
// database, so clones of the database have them too.
func Grants(schema, role, owner string) []string {
	s, r, o := ident(schema), ident(role), ident(owner)
	byOwner := `ALTER DEFAULT PRIVILEGES FOR ROLE ` + o
	return []string{
		`REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
		`CREATE SCHEMA IF NOT EXISTS ` + s + ` AUTHORIZATION ` + o,
		`REVOKE ALL ON SCHEMA ` + s + ` FROM PUBLIC`,
		`GRANT USAGE ON SCHEMA ` + s + ` TO ` + r,
		byOwner + ` REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`,
		byOwner + ` IN SCHEMA ` + s + ` GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ` + r,
		byOwner + ` IN SCHEMA ` + s + ` GRANT USAGE, SELECT ON SEQUENCES TO ` + r,
		byOwner + ` IN SCHEMA ` + s + ` GRANT EXECUTE ON FUNCTIONS TO ` + r,
	}
}

// databaseGrants returns the statements whose effects are stored outside the database. They also set the search path
// of the roles, because some connection poolers drop the startup parameters of clients.
func databaseGrants(database, role, owner, schema string) []string {
	d, r, o := ident(database), ident(role), ident(owner)
	return []string{
		`REVOKE ALL ON DATABASE ` + d + ` FROM PUBLIC`,
		`GRANT CONNECT ON DATABASE ` + d + ` TO ` + r + `, ` + o,
		`ALTER ROLE ` + r + ` IN DATABASE ` + d + ` SET search_path = ` + ident(schema),
		`ALTER ROLE ` + o + ` IN DATABASE ` + d + ` SET search_path = ` + ident(schema),
	}
}

func run(ctx context.Context, conn *pgx.Conn, statements []string) error {
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("run %s: %w", sql, err)
		}
	}
	return nil
}

// scramVerifier returns the verifier that Postgres stores for a password (RFC 5803). The salt is derived from the
// seed, like the password, so that a second run writes the same verifier.
func scramVerifier(password, salt string) (string, error) {
	const iterations = 4096
	saltBytes := sha256.Sum256([]byte(salt))
	salted, err := pbkdf2.Key(sha256.New, password, saltBytes[:16], iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive a SCRAM key: %w", err)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(saltBytes[:16]), b64(stored[:]), b64(sign(salted, "Server Key"))), nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
