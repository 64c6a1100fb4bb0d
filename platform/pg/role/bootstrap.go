// Package role makes what an installation needs of a Postgres server: its database, and for each service
// a schema, the role that owns it and the role that only reads and writes its rows.
//
// It promises that it may be run again at any time, also by several at once and after a crash in the
// middle; that equal seeds give equal passwords, of which the server is told no more than the verifier;
// and that a role reaches its own schema and nothing else.
package role

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg/internal/session"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config names what Bootstrap makes.
type Config struct {
	AdminURL secret.String // a role that may create databases and roles
	Database string
	Services []string // one schema each
	// Seed is what the roles' passwords derive from: the same seed gives the
	// same passwords, so a second run changes nothing for a server that is up.
	Seed   secret.String
	Prefix string // of the roles; "signalbox_"
}

// Credentials are how one service reaches its schema.
type Credentials struct {
	OwnerURL secret.String // migrations only
	URL      secret.String // what the server runs with: rows, no DDL
}

// bootstrapLock keeps two concurrent runs apart; the number has no meaning.
const bootstrapLock = 7306642091

// Bootstrap makes the database, and for each service a schema, the role that
// owns it and the role that reads and writes its rows. What exists is kept and
// put right, so it may be run at every start.
func Bootstrap(ctx context.Context, cfg Config) (map[string]Credentials, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	admin, err := session.Connect(ctx, cfg.AdminURL.Reveal(), nil)
	if err != nil {
		return nil, fmt.Errorf("connect as the admin of Postgres: %w", err)
	}
	defer session.Close(ctx, admin)
	unlock, err := session.Lock(ctx, admin, bootstrapLock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := ensureDatabase(ctx, admin, cfg.Database); err != nil {
		return nil, err
	}
	target, err := withDatabase(cfg.AdminURL, cfg.Database, nil)
	if err != nil {
		return nil, err
	}
	conn, err := session.Connect(ctx, target.Reveal(), nil)
	if err != nil {
		return nil, fmt.Errorf("connect to the database %s: %w", cfg.Database, err)
	}
	defer session.Close(ctx, conn)
	out := make(map[string]Credentials, len(cfg.Services))
	for _, service := range cfg.Services {
		cred, err := cfg.ensureService(ctx, conn, service)
		if err != nil {
			return nil, fmt.Errorf("prepare the schema %s: %w", service, err)
		}
		out[service] = cred
	}
	return out, nil
}

// Grant puts right what Postgres keeps with a database and not in it (who may
// connect), which a database cloned from a template therefore lacks.
func Grant(ctx context.Context, cfg Config) (map[string]Credentials, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	conn, err := session.Connect(ctx, cfg.AdminURL.Reveal(), nil)
	if err != nil {
		return nil, fmt.Errorf("connect as the admin of Postgres: %w", err)
	}
	defer session.Close(ctx, conn)
	out := make(map[string]Credentials, len(cfg.Services))
	for _, service := range cfg.Services {
		if err := run(ctx, conn, databaseGrants(cfg.Database, cfg.role(service), cfg.owner(service), service)); err != nil {
			return nil, fmt.Errorf("let %s into %s: %w", service, cfg.Database, err)
		}
		if out[service], err = cfg.credentials(service); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (cfg *Config) check() error {
	if cfg.Prefix == "" {
		cfg.Prefix = "signalbox_"
	}
	if len(cfg.Seed.Reveal()) < 16 {
		return errors.New("bootstrap: the seed of the roles' passwords needs at least 16 characters")
	}
	for _, name := range append([]string{cfg.Database, cfg.Prefix}, cfg.Services...) {
		if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`).MatchString(name) {
			return fmt.Errorf("bootstrap: name %q: want lower-case letters, digits and _", name)
		}
	}
	return nil
}

func (cfg *Config) role(service string) string  { return cfg.Prefix + service }
func (cfg *Config) owner(service string) string { return cfg.Prefix + service + "_owner" }

func (cfg *Config) ensureService(ctx context.Context, conn *pgx.Conn, service string) (Credentials, error) {
	for _, role := range []string{cfg.owner(service), cfg.role(service)} {
		if err := ensureRole(ctx, conn, role, cfg.password(role), cfg.password(role+" salt")); err != nil {
			return Credentials{}, err
		}
	}
	if err := adopt(ctx, conn, cfg.owner(service)); err != nil {
		return Credentials{}, err
	}
	role, owner := cfg.role(service), cfg.owner(service)
	if err := run(ctx, conn, Grants(service, role, owner)); err != nil {
		return Credentials{}, err
	}
	if err := run(ctx, conn, databaseGrants(cfg.Database, role, owner, service)); err != nil {
		return Credentials{}, err
	}
	return cfg.credentials(service)
}

func (cfg *Config) credentials(service string) (Credentials, error) {
	var c Credentials
	for role, into := range map[string]*secret.String{cfg.owner(service): &c.OwnerURL, cfg.role(service): &c.URL} {
		u, err := withDatabase(cfg.AdminURL, cfg.Database, url.UserPassword(role, cfg.password(role)))
		if err != nil {
			return Credentials{}, err
		}
		*into = u
	}
	return c, nil
}

func (cfg *Config) password(role string) string {
	mac := hmac.New(sha256.New, []byte(cfg.Seed.Reveal()))
	mac.Write([]byte("signalbox role v1\x00" + role))
	return hex.EncodeToString(mac.Sum(nil))
}

// withDatabase is admin's URL with another database and, unless nil, user.
func withDatabase(admin secret.String, database string, user *url.Userinfo) (secret.String, error) {
	u, err := url.Parse(admin.Reveal())
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return secret.String{}, errors.New("the Postgres URL cannot be read: want postgres://role:password@host:port/database")
	}
	u.Path = "/" + database
	if user != nil {
		u.User = user
	}
	return secret.New(u.String()), nil
}
