package migrate

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

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// RoleConfig describes what Bootstrap creates.
type RoleConfig struct {
	AdminURL secret.String // of a role that may create databases and roles
	Database string
	Services []string // one schema each
	// Seed is the secret from which the passwords of the roles are derived. The same seed gives the same passwords,
	// so a second run does not affect running servers.
	Seed   secret.String
	Prefix string // prefix of the role names; default "signalbox_"
}

// Credentials hold the URLs with which one service connects to its schema.
type Credentials struct {
	OwnerURL secret.String // for migrations only
	URL      secret.String // for the service: may read and write rows, but not change tables
}

// bootstrapLock is the key of the advisory lock that lets only one Bootstrap run at a time; the number is arbitrary.
const bootstrapLock = 7306642091

// Bootstrap creates the database and the extension for text search. For each service, it creates a schema, the role
// that owns the schema, and the role that reads and writes its rows. It updates the roles and rights that already exist
// and deletes nothing, so it may run at every start.
func Bootstrap(ctx context.Context, cfg RoleConfig) (map[string]Credentials, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	admin, err := pg.Connect(ctx, cfg.AdminURL.Reveal(), nil)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres as admin: %w", err)
	}
	defer pg.CloseConn(ctx, admin)
	unlock, err := pg.AdvisoryLock(ctx, admin, bootstrapLock)
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
	conn, err := pg.Connect(ctx, target.Reveal(), nil)
	if err != nil {
		return nil, fmt.Errorf("connect to database %s: %w", cfg.Database, err)
	}
	defer pg.CloseConn(ctx, conn)
	if err := ensureExtension(ctx, conn); err != nil {
		return nil, err
	}
	out := make(map[string]Credentials, len(cfg.Services))
	for _, service := range cfg.Services {
		cred, err := cfg.ensureService(ctx, conn, service)
		if err != nil {
			return nil, fmt.Errorf("prepare schema %s: %w", service, err)
		}
		out[service] = cred
	}
	return out, nil
}

// Grant restores the settings that Postgres stores outside the database, such as the right to connect, and returns the
// same credentials as Bootstrap. A database that was cloned from a template lacks these settings. The connection must
// be an admin's; it may be to any database of the server.
func Grant(ctx context.Context, conn *pgx.Conn, cfg RoleConfig) (map[string]Credentials, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	out := make(map[string]Credentials, len(cfg.Services))
	for _, service := range cfg.Services {
		var err error
		if err := run(ctx, conn, databaseGrants(cfg.Database, cfg.role(service), cfg.owner(service), service)); err != nil {
			return nil, fmt.Errorf("grant %s access to database %s: %w", service, cfg.Database, err)
		}
		if out[service], err = cfg.credentials(service); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (cfg *RoleConfig) check() error {
	if cfg.Prefix == "" {
		cfg.Prefix = "signalbox_"
	}
	if len(cfg.Seed.Reveal()) < 16 {
		return errors.New("bootstrap: the seed of the role passwords must have at least 16 characters")
	}
	for _, name := range append([]string{cfg.Database, cfg.Prefix}, cfg.Services...) {
		if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`).MatchString(name) {
			return fmt.Errorf("bootstrap: name %q is not valid; use at most 31 lower-case letters, digits and _, "+
				"starting with a letter", name)
		}
	}
	return nil
}

func (cfg *RoleConfig) role(service string) string  { return cfg.Prefix + service }
func (cfg *RoleConfig) owner(service string) string { return cfg.Prefix + service + "_owner" }

func (cfg *RoleConfig) ensureService(ctx context.Context, conn *pgx.Conn, service string) (Credentials, error) {
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

func (cfg *RoleConfig) credentials(service string) (Credentials, error) {
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

func (cfg *RoleConfig) password(role string) string {
	mac := hmac.New(sha256.New, []byte(cfg.Seed.Reveal()))
	mac.Write([]byte("signalbox role v1\x00" + role))
	return hex.EncodeToString(mac.Sum(nil))
}

// withDatabase returns the admin URL with the given database and, unless it is nil, the given user.
func withDatabase(admin secret.String, database string, user *url.Userinfo) (secret.String, error) {
	u, err := url.Parse(admin.Reveal())
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return secret.String{}, errors.New("the Postgres URL is not valid; use postgres://role:password@host:port/database")
	}
	u.Path = "/" + database
	if user != nil {
		u.User = user
	}
	return secret.New(u.String()), nil
}
