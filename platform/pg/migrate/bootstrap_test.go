package migrate_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// installation returns a configuration whose names are unique to the test, because all databases of a server share
// its roles. It removes the database and the roles at the end of the test.
func installation(t *testing.T, services ...string) migrate.RoleConfig {
	t.Helper()
	admin := pgtest.Admin(t)
	unique := "sbb_" + nameOf(t)
	cfg := migrate.RoleConfig{
		AdminURL: admin, Database: unique, Prefix: unique + "_", Services: services, Seed: secret.New("0123456789abcdef"),
	}
	clean := func() {
		conn, err := pgx.Connect(context.Background(), admin.Reveal())
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		_, err = conn.Exec(context.Background(), `DROP DATABASE IF EXISTS `+unique+` WITH (FORCE)`)
		require.NoError(t, err)
		for _, s := range services {
			for _, name := range []string{cfg.Prefix + s, cfg.Prefix + s + "_owner"} {
				_, err = conn.Exec(context.Background(), `DROP ROLE IF EXISTS `+name)
				require.NoError(t, err)
			}
		}
	}
	clean()
	t.Cleanup(clean)
	return cfg
}

// nameOf returns a short hash of the test's name that is valid in Postgres names.
func nameOf(t *testing.T) string {
	t.Helper()
	h := fnv.New32a()
	_, err := h.Write([]byte(t.Name()))
	require.NoError(t, err)
	return fmt.Sprintf("%08x", h.Sum32())
}

func do(t *testing.T, as secret.String, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), as.Reveal())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	_, err = conn.Exec(t.Context(), sql)
	return err
}

func TestBootstrap_repeatedAndConcurrent(t *testing.T) {
	t.Parallel()
	cfg := installation(t, "auth", "jobs")
	first, err := migrate.Bootstrap(pgtest.Context(t), cfg)
	require.NoError(t, err)
	require.NoError(t, migrate.Up(pgtest.Context(t), first["jobs"].OwnerURL, "jobs", nil))
	require.NoError(t, do(t, first["jobs"].URL, `INSERT INTO event (id, at, subject_kind, subject_id, type, actor_kind) VALUES ('e', now(), '', '', '', '')`))

	group, ctx := errgroup.WithContext(t.Context())
	for range 4 { // concurrent runs
		group.Go(func() error {
			again, err := migrate.Bootstrap(ctx, cfg)
			if err == nil && again["jobs"].URL.Reveal() != first["jobs"].URL.Reveal() {
				err = fmt.Errorf("the password changed")
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.NoError(t, do(t, first["jobs"].URL, `DELETE FROM event WHERE id = 'e'`), "the credentials of the first run still work")
}

func TestBootstrap_newSeedChangesPasswords(t *testing.T) {
	t.Parallel()
	cfg := installation(t, "jobs")
	first, err := migrate.Bootstrap(pgtest.Context(t), cfg)
	require.NoError(t, err)
	cfg.Seed = secret.New("another seed of sixteen")
	_, err = migrate.Bootstrap(pgtest.Context(t), cfg)
	require.NoError(t, err)
	_, err = pgx.Connect(t.Context(), first["jobs"].URL.Reveal())
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "28P01", pgErr.Code)
}

// The test connects as each role to check its rights.
func TestBootstrap_rolesAccessOwnSchemaOnly(t *testing.T) {
	t.Parallel()
	cfg := installation(t, "auth", "jobs")
	creds, err := migrate.Bootstrap(pgtest.Context(t), cfg)
	require.NoError(t, err)
	for service, c := range creds {
		require.NoError(t, migrate.Up(pgtest.Context(t), c.OwnerURL, service, nil))
	}
	server, owner := creds["jobs"].URL, creds["jobs"].OwnerURL
	for name, tc := range map[string]struct {
		as      secret.String
		sql     string
		allowed bool
	}{
		"server reads its rows":               {server, `SELECT id FROM event`, true},
		"server uses sequences and functions": {server, `SELECT nextval('river_job_id_seq'), river_job_state_in_bitmask(B'11111111', 'available')`, true},
		"server reads versions":               {server, `SELECT version_id FROM goose_common_version`, true},
		"server changes idempotency":          {server, `UPDATE idempotency SET key = key; DELETE FROM idempotency`, true},
		"server reads the audit":              {server, `SELECT id FROM audit; SELECT audit_id FROM audit_seal`, true},
		"server updates audit":                {server, `UPDATE audit SET action = ''`, false},
		"server deletes audit":                {server, `DELETE FROM audit`, false},
		"server deletes seal":                 {server, `DELETE FROM audit_seal`, false},
		"server updates checkpoint":           {server, `UPDATE audit_checkpoint SET hash = ''`, false},
		"server truncates table":              {server, `TRUNCATE event`, false},
		"server creates table":                {server, `CREATE TABLE jobs.x (n int)`, false},
		"server creates temporary table":      {server, `CREATE TEMP TABLE x (n int)`, false},
		"server creates public table":         {server, `CREATE TABLE public.x (n int)`, false},
		"server creates schema":               {server, `CREATE SCHEMA x`, false},
		"server alters table":                 {server, `ALTER TABLE event ADD COLUMN n int`, false},
		"server creates role":                 {server, `CREATE ROLE x`, false},
		"server becomes the owner":            {server, `SET ROLE ` + cfg.Prefix + `jobs_owner`, false},
		"server reads other schema":           {server, `SELECT id FROM auth.event`, false},
		"owner reads other schema":            {owner, `SELECT id FROM auth.event`, false},
		"owner creates table":                 {owner, `CREATE TABLE made (n int)`, true},
		"owner creates public table":          {owner, `CREATE TABLE public.x (n int)`, false},
		"owner creates database":              {owner, `CREATE DATABASE x`, false},
	} {
		err := do(t, tc.as, tc.sql)
		if tc.allowed {
			require.NoError(t, err, name)
			continue
		}
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr, name)
		require.Equal(t, "42501", pgErr.Code, "%s: %s", name, pgErr.Message)
	}
	require.NoError(t, do(t, server, `INSERT INTO made VALUES (1)`), "the server may use tables that the owner creates later")
}

// Managed Postgres servers do not provide a superuser.
func TestBootstrap_adminWithoutSuperuser(t *testing.T) {
	t.Parallel()
	cfg := installation(t, "jobs")
	dba, super := cfg.Database+"_dba", cfg.AdminURL
	require.NoError(t, do(t, cfg.AdminURL, `CREATE ROLE `+dba+` LOGIN CREATEDB CREATEROLE PASSWORD 'weak'`))
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), super.Reveal())
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		for _, sql := range []string{`DROP DATABASE IF EXISTS ` + cfg.Database + ` WITH (FORCE)`, `DROP OWNED BY ` + dba, `DROP ROLE ` + dba} {
			_, err := conn.Exec(context.Background(), sql)
			require.NoError(t, err, sql)
		}
	})
	u, err := url.Parse(cfg.AdminURL.Reveal())
	require.NoError(t, err)
	u.User = url.UserPassword(dba, "weak")
	cfg.AdminURL = secret.New(u.String())
	for range 2 {
		creds, err := migrate.Bootstrap(pgtest.Context(t), cfg)
		require.NoError(t, err)
		require.NoError(t, migrate.Up(pgtest.Context(t), creds["jobs"].OwnerURL, "jobs", nil))
		require.NoError(t, do(t, creds["jobs"].URL, `SELECT id FROM event`))
	}
}

func TestBootstrap_invalidConfig(t *testing.T) {
	t.Parallel()
	good := migrate.RoleConfig{AdminURL: secret.New("postgres://x"), Database: "d", Services: []string{"jobs"}, Seed: secret.New("0123456789abcdef")}
	for want, change := range map[string]func(*migrate.RoleConfig){
		"seed":     func(c *migrate.RoleConfig) { c.Seed = secret.New("short") },
		`"d; x"`:   func(c *migrate.RoleConfig) { c.Database = "d; x" },
		`"a\"b"`:   func(c *migrate.RoleConfig) { c.Services = []string{`a"b`} },
		`"Prefix"`: func(c *migrate.RoleConfig) { c.Prefix = "Prefix" },
	} {
		cfg := good
		change(&cfg)
		_, err := migrate.Bootstrap(pgtest.Context(t), cfg)
		require.ErrorContains(t, err, want)
	}
}
