package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// credentials inserts two credentials of each kind. The tests revoke the one with the number 1, and never the other
// one.
const credentials = `
INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{cpu}', now());
INSERT INTO join_token (id, fleet_id, hash, max_uses, expires_at, created_at)
	SELECT 'jtk_' || n, 'flt_1', sha256(('j' || n)::bytea), n, now() + interval '1 day', now() FROM generate_series(1, 2) n;
INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
	SELECT 'nod_' || n, 'flt_1', 'n' || n, 'ready', 8, 0, 0, 8, '', '', now() FROM generate_series(1, 2) n;
INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, job_id, attempt, owner_id, project_id, node_id, created_at, updated_at)
	SELECT 'wrk_' || n, 'attempt', 1, 1, 'running', now(), '', 'cpu', 0, 1, 'job_1', 1, 'usr_1', 'prj_1', 'nod_2', now(), now() FROM generate_series(1, 2) n;
INSERT INTO ingest_token (hash, job_id, run_id, attempt, work_id, created_at, expires_at)
	SELECT sha256(('i' || n)::bytea), 'job_1', 'run_1', 1, 'wrk_' || n, now(), now() + interval '1 day' FROM generate_series(1, 2) n;
INSERT INTO share (id, kind, owner_id, owner_name, hash, prefix, targets, runs, fields, pinned, created_at)
	SELECT 'shr_' || n, 'job', 'usr_1', 'u', sha256(('s' || n)::bytea), 'x', '{job_1}', '{run_1}', '{}', true, now() FROM generate_series(1, 2) n;
INSERT INTO share_pin (share_id, run, part, data) VALUES ('shr_1', 0, 'run', '');`

// valid lists the credentials that are accepted.
const valid = `SELECT id FROM (
	SELECT 'join ' || id FROM join_token WHERE revoked_at IS NULL AND uses < max_uses
	UNION ALL SELECT 'node ' || id FROM node
	UNION ALL SELECT 'ingest ' || work_id FROM ingest_token WHERE revoked_at IS NULL
	UNION ALL SELECT 'share ' || id FROM share WHERE revoked_at IS NULL) AS v (id) ORDER BY id`

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

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	execute(t, pool, credentials)
	return pool
}

// Each kind of credential is revoked. The revocation is then undone, as a restore does, and repeated from its record.
func TestRevocationsAreRecordedAndRepeated(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct{ revoke, undo, gone string }{
		"join":     {`UPDATE join_token SET revoked_at = now() WHERE id = 'jtk_1'`, `UPDATE join_token SET revoked_at = NULL`, "join jtk_1"},
		"join_use": {`UPDATE join_token SET uses = uses + 1 WHERE id = 'jtk_1'`, `UPDATE join_token SET uses = 0`, "join jtk_1"},
		"join deleted": {
			`DELETE FROM join_token WHERE id = 'jtk_1'`,
			`INSERT INTO join_token (id, fleet_id, hash, max_uses, expires_at, created_at) VALUES ('jtk_1', 'flt_1', sha256('j1'), 1, now() + interval '1 day', now())`, "join jtk_1",
		},
		"node": {
			`DELETE FROM node WHERE id = 'nod_1'`,
			`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
				VALUES ('nod_1', 'flt_1', 'n', 'ready', 8, 0, 0, 8, '', '', now())`, "node nod_1",
		},
		"share":  {`UPDATE share SET revoked_at = now() WHERE id = 'shr_1'`, `UPDATE share SET revoked_at = NULL`, "share shr_1"},
		"ingest": {`UPDATE ingest_token SET revoked_at = now() WHERE work_id = 'wrk_1'`, `UPDATE ingest_token SET revoked_at = NULL`, "ingest wrk_1"},
		"ingest deleted": {
			`DELETE FROM ingest_token WHERE work_id = 'wrk_1'`,
			`INSERT INTO ingest_token (hash, job_id, run_id, attempt, work_id, created_at, expires_at)
				VALUES (sha256('i1'), 'job_1', 'run_1', 1, 'wrk_1', now(), now() + interval '1 day')`, "ingest wrk_1",
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			pool := open(t)
			before := list(t, pool, valid)
			execute(t, pool, c.revoke)
			after := list(t, pool, valid)
			require.Len(t, after, len(before)-1)
			require.NotContains(t, after, c.gone)
			recorded := list(t, pool, `SELECT kind || ' ' || subject FROM revocation`)
			require.Len(t, recorded, 1)
			execute(t, pool, c.undo)
			require.Equal(t, before, list(t, pool, valid))
			const again = `SELECT revoke_again(kind, subject, '')::text FROM revocation WHERE seq = 1`
			require.Equal(t, []string{"true"}, list(t, pool, again))
			require.Equal(t, after, list(t, pool, valid), "%v", recorded)
			require.Equal(t, []string{"false"}, list(t, pool, again), "nothing must be left to revoke")
		})
	}
}

// A new table of credentials needs triggers that record its revocations.
func TestRevocationsOfEveryTableAreRecorded(t *testing.T) {
	t.Parallel()
	require.Empty(t, list(t, open(t), `SELECT t.relname::text FROM pg_attribute a
		JOIN pg_class t ON t.oid = a.attrelid AND t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace
		WHERE a.attname = 'revoked_at' AND NOT EXISTS (SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
			WHERE g.tgrelid = a.attrelid AND p.proname = 'record_revocation')`))
}

func TestRevokeAgain_unknownKindFails(t *testing.T) {
	t.Parallel()
	_, err := open(t).Exec(t.Context(), `SELECT revoke_again('sticker', 'x', '')`)
	require.ErrorContains(t, err, "kind sticker are unknown")
}

func TestRevokeAgain_nodeFencesWork(t *testing.T) {
	t.Parallel()
	pool := open(t)
	execute(t, pool, `SELECT revoke_again('node', 'nod_2', '')`)
	require.Equal(t, []string{"2", "2"}, list(t, pool, `SELECT fence::text FROM work`))
	require.NotContains(t, list(t, pool, valid), "ingest wrk_1")
	execute(t, pool, `SELECT revoke_again('share', subject, '') FROM (SELECT hash::text AS subject FROM share WHERE id = 'shr_1') AS s`)
	require.Empty(t, list(t, pool, `SELECT share_id FROM share_pin`))
}

func TestRevokeEverything(t *testing.T) {
	t.Parallel()
	pool := open(t)
	execute(t, pool, `SELECT revoke_everything('')`)
	require.Empty(t, list(t, pool, valid))
}
