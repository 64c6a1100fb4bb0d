package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func list(t *testing.T, pool *pgxpool.Pool, sql string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	require.NoError(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return out
}

func execute(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql)
	require.NoError(t, err)
}

const valid = `SELECT id FROM deployment_token WHERE revoked_at IS NULL ORDER BY id`

// open returns a schema with two deployment tokens.
func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	execute(t, pool, `
INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, created_at)
	VALUES ('dep_1', 'd', 'usr_1', 'u', 'prj_1', 'p', 'team', 'serving', now());
INSERT INTO deployment_token (id, deployment_id, name, prefix, hash, created_at)
	SELECT 'dtk_' || n, 'dep_1', 'n', 'x', sha256(('d' || n)::bytea), now() FROM generate_series(1, 2) n`)
	return pool
}

func TestRevocationsAreRecordedAndRepeated(t *testing.T) {
	t.Parallel()
	pool := open(t)
	execute(t, pool, `UPDATE deployment_token SET revoked_at = now(), revoked_epoch = 2 WHERE id = 'dtk_1'`)
	require.Equal(t, []string{"deployment"}, list(t, pool, `SELECT kind FROM revocation`))
	execute(t, pool, `UPDATE deployment_token SET revoked_at = NULL`)
	const again = `SELECT revoke_again(kind, subject, '')::text FROM revocation WHERE seq = 1`
	require.Equal(t, []string{"true"}, list(t, pool, again))
	require.Equal(t, []string{"dtk_2"}, list(t, pool, valid))
	require.Equal(t, []string{"false"}, list(t, pool, again), "nothing is left to revoke")
	_, err := pool.Exec(t.Context(), `SELECT revoke_again('sticker', 'x', '')`)
	require.ErrorContains(t, err, "kind sticker are unknown")
}

// A new table of credentials needs triggers that record its revocations.
func TestRevocationsOfEveryTableAreRecorded(t *testing.T) {
	t.Parallel()
	require.Empty(t, list(t, open(t), `SELECT t.relname::text FROM pg_attribute a
		JOIN pg_class t ON t.oid = a.attrelid AND t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace
		WHERE a.attname = 'revoked_at' AND NOT EXISTS (SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
			WHERE g.tgrelid = a.attrelid AND p.proname = 'record_revocation')`))
}

func TestRevokeEverything(t *testing.T) {
	t.Parallel()
	pool := open(t)
	execute(t, pool, `SELECT revoke_everything('')`)
	require.Empty(t, list(t, pool, valid))
}

func TestRaiseEpochs(t *testing.T) {
	t.Parallel()
	pool := open(t)
	execute(t, pool, `INSERT INTO inference_replica (replica_id, acked_epoch, lease_until) VALUES ('rep_1', 900, now())`)
	execute(t, pool, `INSERT INTO snapshot_change (epoch) VALUES (900)`)
	execute(t, pool, `SELECT raise_epochs()`)
	require.Equal(t, []string{"true"}, list(t, pool, `SELECT (epoch > 4294967296)::text FROM snapshot_epoch`))
	require.Empty(t, list(t, pool, `SELECT replica_id FROM inference_replica UNION ALL SELECT 'change' FROM snapshot_change`))
}
