package migrate_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// bare creates a separate installation for the test. Its only schema, jobs, is not migrated.
func bare(t *testing.T) map[string]migrate.Credentials {
	t.Helper()
	admin := pgtest.Admin(t)
	h := fnv.New32a()
	_, err := h.Write([]byte(t.Name()))
	require.NoError(t, err)
	unique := fmt.Sprintf("sbm_%08x", h.Sum32())
	clean := func() {
		conn, err := pgx.Connect(context.Background(), admin.Reveal())
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		for _, sql := range []string{
			`DROP DATABASE IF EXISTS ` + unique + ` WITH (FORCE)`, `DROP ROLE IF EXISTS ` + unique + `_jobs`, `DROP ROLE IF EXISTS ` + unique + `_jobs_owner`,
		} {
			_, err := conn.Exec(context.Background(), sql)
			require.NoError(t, err, sql)
		}
	}
	clean()
	t.Cleanup(clean)
	creds, err := migrate.Bootstrap(pgtest.Context(t), migrate.RoleConfig{
		AdminURL: admin, Database: unique, Prefix: unique + "_", Services: []string{"jobs"}, Seed: secret.New("0123456789abcdef"),
	})
	require.NoError(t, err)
	return creds
}
