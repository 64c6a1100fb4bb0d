package db_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// credentials inserts two credentials of each kind. The tests revoke the first, with the number 1, and never the
// second.
const credentials = `
INSERT INTO account (id, username, role, password_hash, created_at) SELECT 'usr_' || n, 'u' || n, 'admin', 'hash', now() FROM generate_series(1, 3) n;
INSERT INTO session (id, account_id, client_address, created_at) SELECT 'ses_' || n, 'usr_3', '', now() FROM generate_series(1, 2) n;
INSERT INTO refresh_token (hash, session_id, issued_at, expires_at)
	SELECT sha256(('r' || n)::bytea), 'ses_2', now(), now() + interval '1 day' FROM generate_series(1, 2) n;
INSERT INTO oauth_client (id, name, redirect_uris, created_at) VALUES ('c', 'c', '{http://x}', now());
INSERT INTO oauth_grant (id, client_id, account_id, account_epoch, resource, scope, redirect_uri, code_hash, code_challenge, created_at, code_expires_at)
	SELECT 'gra_' || n, 'c', 'usr_3', 1, '', '', '', sha256(('g' || n)::bytea), repeat('x', 43), now(), now() + interval '1 day' FROM generate_series(1, 3) n;
INSERT INTO oauth_refresh_token (hash, grant_id, issued_at, expires_at)
	SELECT sha256(('o' || n)::bytea), 'gra_3', now(), now() + interval '1 day' FROM generate_series(1, 2) n;
INSERT INTO device_code (id, hash, user_code_hash, client_id, client_name, client_address, address_key, created_at, expires_at, interval_seconds)
	SELECT 'dev_' || n, sha256(('d' || n)::bytea), sha256(('u' || n)::bytea), 'c', 'c', '', '', now(), now() + interval '1 day', 5 FROM generate_series(1, 2) n;
INSERT INTO sign_in_link (hash, account_id, account_epoch, created_at, expires_at)
	SELECT sha256(('l' || n)::bytea), 'usr_3', 1, now(), now() + interval '10 minutes' FROM generate_series(1, 2) n;
INSERT INTO signing_key (kid, purpose, generation, sealed, public_key, created_at, signs_at)
	SELECT 'key_' || n, 'access', n, 'x', sha256('x'), now(), now() FROM generate_series(1, 2) n;`

// valid lists the credentials that are accepted.
const valid = `SELECT id FROM (
	SELECT 'access ' || id FROM session WHERE revoked_at IS NULL
	UNION ALL SELECT 'refresh ' || CASE hash WHEN sha256('r1') THEN 1 ELSE 2 END FROM refresh_token WHERE used_at IS NULL
	UNION ALL SELECT 'oauth refresh ' || CASE hash WHEN sha256('o1') THEN 1 ELSE 2 END FROM oauth_refresh_token WHERE used_at IS NULL
	UNION ALL SELECT 'grant ' || id FROM oauth_grant WHERE revoked_at IS NULL AND code_used_at IS NULL
	UNION ALL SELECT 'device ' || id FROM device_code WHERE state IN ('pending', 'approved')
	UNION ALL SELECT 'link ' || CASE hash WHEN sha256('l1') THEN 1 ELSE 2 END FROM sign_in_link WHERE used_at IS NULL
	UNION ALL SELECT 'user ' || id FROM account WHERE disabled_at IS NULL
	UNION ALL SELECT 'admin ' || id FROM account WHERE role = 'admin'
	UNION ALL SELECT 'password ' || id FROM account WHERE password_hash = 'hash'
	UNION ALL SELECT 'key ' || kid FROM signing_key WHERE revoked_at IS NULL) AS v (id) ORDER BY id`

func list(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return out
}

func execute(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func open(t *testing.T) *pgtest.DB {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	d := pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files})
	execute(t, d.Pool("auth"), credentials)
	return d
}

// For each kind of credential, the test revokes one, undoes the revocation as the restore of a backup does, and repeats
// the revocation from its recorded row.
func TestRevocationsAreRecordedAndRepeated(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct{ revoke, undo, gone string }{
		"access":  {`UPDATE session SET revoked_at = now(), revoked_reason = 'logout' WHERE id = 'ses_1'`, `UPDATE session SET revoked_at = NULL, revoked_reason = NULL`, "access ses_1"},
		"refresh": {`UPDATE refresh_token SET used_at = now() WHERE hash = sha256('r1')`, `UPDATE refresh_token SET used_at = NULL`, "refresh 1"},
		"refresh of an OAuth client": {
			`UPDATE oauth_refresh_token SET used_at = now() WHERE hash = sha256('o1')`, `UPDATE oauth_refresh_token SET used_at = NULL`, "oauth refresh 1",
		},
		"grant": {
			`UPDATE oauth_grant SET revoked_at = now(), revoked_reason = 'client' WHERE id = 'gra_1'`,
			`UPDATE oauth_grant SET revoked_at = NULL, revoked_reason = NULL`, "grant gra_1",
		},
		"grant_code": {
			`UPDATE oauth_grant SET code_used_at = now(), session_id = 'ses_2' WHERE id = 'gra_1'`,
			`UPDATE oauth_grant SET code_used_at = NULL, session_id = NULL`, "grant gra_1",
		},
		"device_code": {
			`UPDATE device_code SET state = 'denied', account_id = 'usr_3', account_epoch = 1, decided_at = now() WHERE id = 'dev_1'`,
			`UPDATE device_code SET state = 'pending', account_id = NULL, account_epoch = NULL, decided_at = NULL`, "device dev_1",
		},
		"sign_in_link": {`UPDATE sign_in_link SET used_at = now() WHERE hash = sha256('l1')`, `UPDATE sign_in_link SET used_at = NULL`, "link 1"},
		"user":         {`UPDATE account SET disabled_at = now() WHERE id = 'usr_1'`, `UPDATE account SET disabled_at = NULL`, "user usr_1"},
		"admin":        {`UPDATE account SET role = 'operator' WHERE id = 'usr_1'`, `UPDATE account SET role = 'admin'`, "admin usr_1"},
		"password": {
			`UPDATE account SET password_hash = 'new', epoch = epoch + 1 WHERE id = 'usr_1'`, `UPDATE account SET password_hash = 'hash' WHERE id = 'usr_1'`, "password usr_1",
		},
		"signing_key": {`UPDATE signing_key SET revoked_at = now() WHERE kid = 'key_1'`, `UPDATE signing_key SET revoked_at = NULL`, "key key_1"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			pool := open(t).Pool("auth")
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
			require.Equal(t, []string{"false"}, list(t, pool, again), "nothing is left to revoke")
		})
	}
}

// A new table of credentials needs triggers that record its revocations.
func TestRevocationsOfEveryTableAreRecorded(t *testing.T) {
	t.Parallel()
	require.Empty(t, list(t, open(t).Pool("auth"), `SELECT t.relname::text FROM pg_attribute a
		JOIN pg_class t ON t.oid = a.attrelid AND t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace
		WHERE a.attname = 'revoked_at' AND NOT EXISTS (SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
			WHERE g.tgrelid = a.attrelid AND p.proname = 'record_revocation')`))
}

func TestRevokeAgain_unknownKindFails(t *testing.T) {
	t.Parallel()
	_, err := open(t).Pool("auth").Exec(t.Context(), `SELECT revoke_again('sticker', 'x', '')`)
	require.ErrorContains(t, err, "kind sticker are unknown")
}

// The last admin with a password keeps it, so that someone can sign in.
func TestRevokeAgain_lastAdminKeepsPassword(t *testing.T) {
	t.Parallel()
	pool := open(t).Pool("auth")
	for n := range 3 {
		execute(t, pool, `SELECT revoke_again('password', $1, '')`, fmt.Sprintf("usr_%d", n+1))
	}
	require.Equal(t, []string{"usr_3"}, list(t, pool, `SELECT id FROM account WHERE password_hash <> '' AND must_change_password`))
}

func TestRevokeAgain_namedAdminStays(t *testing.T) {
	t.Parallel()
	pool := open(t).Pool("auth")
	for kind, changed := range map[string]string{"user": "false", "admin": "false", "password": "true"} {
		require.Equal(t, []string{changed}, list(t, pool, `SELECT revoke_again($1, 'usr_2', 'usr_2')::text`, kind), kind)
	}
	require.Equal(t, []string{"usr_2 2"}, list(t, pool, `SELECT id || ' ' || epoch FROM account
		WHERE role = 'admin' AND disabled_at IS NULL AND password_hash = 'hash' AND must_change_password`))
}

func TestRevokeEverything_keepsOneAdmin(t *testing.T) {
	t.Parallel()
	pool := open(t).Pool("auth")
	execute(t, pool, `SELECT revoke_everything('usr_2')`)
	require.Equal(t, []string{"admin usr_1", "admin usr_2", "admin usr_3", "password usr_1", "password usr_2", "password usr_3", "user usr_2"},
		list(t, pool, valid))
}

func TestRaiseEpochs_endsGatewayLeases(t *testing.T) {
	t.Parallel()
	pool := open(t).Pool("auth")
	execute(t, pool, `INSERT INTO gateway_lease VALUES ('rep_1', 900, now())`)
	execute(t, pool, `SELECT raise_epochs()`)
	require.Equal(t, []string{"true 0"}, list(t, pool, `SELECT (epoch > 4294967296) || ' ' || (SELECT count(*) FROM gateway_lease) FROM caller_epoch`))
}
