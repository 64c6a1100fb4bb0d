package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// live is a valid session with its account, read by one statement.
type live struct {
	sessionID  string
	accountID  string
	username   string
	role       string
	epoch      int64
	method     Method
	lastUsedAt time.Time
	// endsAt is when the last token of the session expires.
	endsAt time.Time
	// drawn is true if the password is temporary and the user must change it before most other calls.
	drawn bool
}

const liveColumns = `s.id, a.id, a.username, a.role, a.epoch, s.method, s.last_used_at, s.expires_at, a.must_change_password AND s.method <> 'oidc'`

func scanLive(row pgx.Row) (live, error) {
	var l live
	err := row.Scan(&l.sessionID, &l.accountID, &l.username, &l.role, &l.epoch, &l.method, &l.lastUsedAt, &l.endsAt, &l.drawn)
	if errors.Is(err, pgx.ErrNoRows) {
		return live{}, errToken
	}
	if err != nil {
		return live{}, fmt.Errorf("load the session: %w", err)
	}
	return l, nil
}

// loadLive returns a session that is not revoked and whose account is enabled. It returns errToken if no such session
// exists.
func loadLive(ctx context.Context, q pg.Querier, sessionID string) (live, error) {
	return scanLive(q.QueryRow(ctx, `
		SELECT `+liveColumns+` FROM session s JOIN account a ON a.id = s.account_id
		WHERE s.id = $1 AND s.revoked_at IS NULL AND a.disabled_at IS NULL`, sessionID))
}

// check is like loadLive, but also requires that the key that signed the access token is valid. One statement reads
// everything that can invalidate a token before it expires. Because gateways cache the result, each change to the rows
// that check reads must raise the epoch of callers, through the trigger raise_caller_epoch.
func check(ctx context.Context, q pg.Querier, sessionID, kid string) (live, error) {
	return scanLive(q.QueryRow(ctx, `
		SELECT `+liveColumns+`
		FROM session s JOIN account a ON a.id = s.account_id
		JOIN signing_key k ON k.kid = $2 AND k.purpose = 'access' AND k.revoked_at IS NULL AND k.retired_at IS NULL
		WHERE s.id = $1 AND s.revoked_at IS NULL AND a.disabled_at IS NULL`, sessionID, kid))
}

// used records that the session is in use. It does nothing if the row is locked: of several concurrent calls, one
// record is enough, and none waits for a lock.
func used(ctx context.Context, q pg.Querier, sessionID string, at, before time.Time) error {
	_, err := q.Exec(ctx, `
		UPDATE session SET last_used_at = $2
		WHERE id = (SELECT id FROM session WHERE id = $1 AND revoked_at IS NULL AND last_used_at <= $3 FOR UPDATE SKIP LOCKED)`,
		sessionID, at, before)
	if err != nil {
		return fmt.Errorf("record the session's use: %w", err)
	}
	return nil
}

// lockAccount loads the account for which a session is being opened, and locks the account against changes until the
// transaction ends. It returns ErrAccountUnusable if the account is unknown or disabled. It also does so if the account
// has another epoch, for example because the password has changed since it was checked. Epoch 0 matches any epoch.
func lockAccount(ctx context.Context, tx pgx.Tx, accountID string, epoch int64) (live, error) {
	l := live{accountID: accountID}
	err := tx.QueryRow(ctx, `
		SELECT username, role, epoch FROM account
		WHERE id = $1 AND disabled_at IS NULL AND ($2 = 0 OR epoch = $2) FOR SHARE`, accountID, epoch).
		Scan(&l.username, &l.role, &l.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return live{}, ErrAccountUnusable
	}
	if err != nil {
		return live{}, fmt.Errorf("load the account: %w", err)
	}
	return l, nil
}

func insertSession(ctx context.Context, tx pgx.Tx, l live, r OpenRequest, at, ends time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO session (id, account_id, method, client_address, client_name, created_at, last_used_at, expires_at)
		VALUES ($1, $2, $3, $4, NULLIF($5, ''), $6, $6, $7)`,
		l.sessionID, l.accountID, r.Method, r.ClientAddress, r.ClientName, at, ends)
	if err != nil {
		return fmt.Errorf("open the session: %w", err)
	}
	return nil
}

// extend moves the expiry of the session to the given time, if that is later, and returns the session. It returns
// ErrAccountUnusable if the session is revoked or the account is disabled. The expiry of a session opened with the
// sign-in provider does not move: the user must sign in again after RefreshTTL, so that the provider can reject a user
// who has left.
func extend(ctx context.Context, q pg.Querier, sessionID string, ends time.Time) (live, error) {
	l, err := scanLive(q.QueryRow(ctx, `
		UPDATE session s SET expires_at = CASE s.method WHEN 'oidc' THEN s.expires_at ELSE greatest(s.expires_at, $2) END FROM account a
		WHERE s.id = $1 AND a.id = s.account_id AND s.revoked_at IS NULL AND a.disabled_at IS NULL
		RETURNING `+liveColumns, sessionID, ends))
	if errors.Is(err, errToken) {
		return live{}, ErrAccountUnusable
	}
	return l, err
}

func insertRefresh(ctx context.Context, tx pgx.Tx, hash []byte, sessionID string, at, ends time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO refresh_token (hash, session_id, issued_at, expires_at) VALUES ($1, $2, $3, $4)`,
		hash, sessionID, at, ends)
	if err != nil {
		return fmt.Errorf("store the refresh token: %w", err)
	}
	return nil
}

// useRefresh marks a token as used. Of several concurrent calls, only one gets ok = true.
func useRefresh(ctx context.Context, tx pgx.Tx, hash []byte, at time.Time) (sessionID string, ok bool, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE refresh_token SET used_at = $2 WHERE hash = $1 AND used_at IS NULL AND expires_at > $2
		RETURNING session_id`, hash, at).Scan(&sessionID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("mark the refresh token as used: %w", err)
	}
	return sessionID, true, nil
}

// usedRefresh returns the session of a used token. It returns errRefresh if the token is unknown or was never used.
func usedRefresh(ctx context.Context, tx pgx.Tx, hash []byte) (sessionID string, err error) {
	err = tx.QueryRow(ctx, `SELECT session_id FROM refresh_token WHERE hash = $1 AND used_at IS NOT NULL`, hash).Scan(&sessionID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errRefresh
	}
	if err != nil {
		return "", fmt.Errorf("load the refresh token: %w", err)
	}
	return sessionID, nil
}

// unusedRefresh reports whether the token exists and was never used.
func unusedRefresh(ctx context.Context, tx pgx.Tx, hash []byte) (unused bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM refresh_token WHERE hash = $1 AND used_at IS NULL)`, hash).Scan(&unused)
	if err != nil {
		return false, fmt.Errorf("load the next refresh token: %w", err)
	}
	return unused, nil
}

// insertSalt stores the salt of a token that a client at the address has just used.
func insertSalt(ctx context.Context, tx pgx.Tx, hash, salt []byte, address string, at time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO refresh_salt (hash, salt, client_address, used_at) VALUES ($1, $2, $3, $4)`, hash, salt, address, at)
	if err != nil {
		return fmt.Errorf("store the salt of the refresh token: %w", err)
	}
	return nil
}

// findSalt returns the salt of a token that a client at the address used at the given time or later, or nil.
func findSalt(ctx context.Context, tx pgx.Tx, hash []byte, address string, since time.Time) (salt []byte, err error) {
	err = tx.QueryRow(ctx, `SELECT salt FROM refresh_salt WHERE hash = $1 AND client_address = $2 AND used_at >= $3`, hash, address, since).
		Scan(&salt)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("load the salt of the refresh token: %w", err)
	}
	return salt, nil
}

// forgetSalts deletes the salts of tokens that were used before the given time.
func forgetSalts(ctx context.Context, q pg.Querier, before time.Time) error {
	if _, err := q.Exec(ctx, `DELETE FROM refresh_salt WHERE used_at < $1`, before); err != nil {
		return fmt.Errorf("delete the salts of refresh tokens: %w", err)
	}
	return nil
}

// revoke ends a session. It returns false if the session was already revoked.
func revoke(ctx context.Context, tx pgx.Tx, sessionID string, why Reason, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE session SET revoked_at = $2, revoked_reason = $3 WHERE id = $1 AND revoked_at IS NULL`,
		sessionID, at, why)
	if err != nil {
		return false, fmt.Errorf("revoke the session: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// revokeOwn ends a session of the account. It returns false if the account has no valid session with this id.
func revokeOwn(ctx context.Context, tx pgx.Tx, accountID, sessionID string, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE session SET revoked_at = $3, revoked_reason = 'user'
		WHERE id = $1 AND account_id = $2 AND revoked_at IS NULL AND expires_at > $3`, sessionID, accountID, at)
	if err != nil {
		return false, fmt.Errorf("revoke the session: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

func revokeAll(ctx context.Context, tx pgx.Tx, accountID string, why Reason, except string, at time.Time) (int, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE session SET revoked_at = $4, revoked_reason = $3
		WHERE account_id = $1 AND id <> $2 AND revoked_at IS NULL`, accountID, except, why, at)
	if err != nil {
		return 0, fmt.Errorf("revoke the account's sessions: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// listLive returns the valid sessions of an account, newest first. They are not ordered by their last use, because
// then a session that is used between the requests of two pages would be missed.
func listLive(ctx context.Context, q pg.Querier, accountID string, at time.Time, p request.Page) ([]Info, error) {
	rows, err := q.Query(ctx, `
		SELECT id, method, client_address, client_name, created_at, last_used_at FROM session
		WHERE account_id = $1 AND revoked_at IS NULL AND expires_at > $2
		ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4`, accountID, at, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Info])
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return list, nil
}

func forgetTokens(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `
		DELETE FROM refresh_token WHERE hash IN (
			SELECT hash FROM refresh_token WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete expired refresh tokens: %w", err)
	}
	return tag.RowsAffected(), nil
}

// forgetSessions deletes expired sessions and keeps the time of the newest one in its account. It skips sessions of
// accounts that are being changed: those changes lock the account before its sessions, so waiting could deadlock.
func forgetSessions(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `
		WITH expired AS MATERIALIZED (
			SELECT id, account_id, created_at FROM session WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED),
		owner AS MATERIALIZED (
			SELECT id FROM account WHERE id IN (SELECT account_id FROM expired) FOR NO KEY UPDATE SKIP LOCKED),
		ended AS MATERIALIZED (SELECT e.id, e.account_id, e.created_at FROM expired e JOIN owner o ON o.id = e.account_id),
		logins AS (
			UPDATE account a SET last_login_at = n.at FROM (SELECT account_id, max(created_at) AS at FROM ended GROUP BY account_id) n
			WHERE a.id = n.account_id AND (a.last_login_at IS NULL OR a.last_login_at < n.at)),
		tokens AS (DELETE FROM refresh_token r USING ended e WHERE r.session_id = e.id)
		DELETE FROM session s USING ended e WHERE s.id = e.id`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete expired sessions: %w", err)
	}
	return tag.RowsAffected(), nil
}

// insertLink stores a sign-in link for the first enabled admin and returns the admin's id and username.
func insertLink(ctx context.Context, tx pgx.Tx, hash []byte, at, expires time.Time) (accountID, username string, err error) {
	err = tx.QueryRow(ctx, `
		WITH first AS (
			SELECT id, username, epoch FROM account WHERE role = 'admin' AND disabled_at IS NULL ORDER BY created_at, id LIMIT 1),
		added AS (
			INSERT INTO sign_in_link (hash, account_id, account_epoch, created_at, expires_at)
			SELECT $1, id, epoch, $2, $3 FROM first)
		SELECT id, username FROM first`, hash, at, expires).Scan(&accountID, &username)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", errors.New("no enabled admin exists, so a sign-in link would sign in no account")
	}
	if err != nil {
		return "", "", fmt.Errorf("store the sign-in link: %w", err)
	}
	return accountID, username, nil
}

// trimLinks deletes the oldest links, so that at most the given number are stored.
func trimLinks(ctx context.Context, tx pgx.Tx, most int) error {
	_, err := tx.Exec(ctx, `DELETE FROM sign_in_link WHERE hash IN (
		SELECT hash FROM sign_in_link ORDER BY created_at DESC, hash OFFSET $1)`, most)
	if err != nil {
		return fmt.Errorf("delete the oldest sign-in links: %w", err)
	}
	return nil
}

// useLink marks a link as used and returns the account that it signs in. It returns errToken if the link is unknown,
// used or expired.
func useLink(ctx context.Context, tx pgx.Tx, hash []byte, at time.Time) (accountID string, epoch int64, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE sign_in_link SET used_at = $2 WHERE hash = $1 AND used_at IS NULL AND expires_at > $2
		RETURNING account_id, account_epoch`, hash, at).Scan(&accountID, &epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", 0, errToken
	}
	if err != nil {
		return "", 0, fmt.Errorf("mark the sign-in link as used: %w", err)
	}
	return accountID, epoch, nil
}

func forgetLinks(ctx context.Context, q pg.Querier, before time.Time) error {
	if _, err := q.Exec(ctx, `DELETE FROM sign_in_link WHERE expires_at < $1`, before); err != nil {
		return fmt.Errorf("delete expired sign-in links: %w", err)
	}
	return nil
}
