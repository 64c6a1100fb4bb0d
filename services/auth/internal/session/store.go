package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// live is a session with the account that it belongs to, as one read.
type live struct {
	sessionID string
	accountID string
	username  string
	role      string
	epoch     int64
}

// loadLive answers a session that still counts: not revoked, its account not disabled.
func loadLive(ctx context.Context, q pg.Querier, sessionID string) (live, error) {
	l := live{sessionID: sessionID}
	err := q.QueryRow(ctx, `
		SELECT a.id, a.username, a.role, a.epoch
		FROM session s JOIN account a ON a.id = s.account_id
		WHERE s.id = $1 AND s.revoked_at IS NULL AND a.disabled_at IS NULL`, sessionID).
		Scan(&l.accountID, &l.username, &l.role, &l.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return live{}, errToken
	}
	if err != nil {
		return live{}, fmt.Errorf("load the session: %w", err)
	}
	return l, nil
}

// insertSession opens a session of the account as the password check found it: false where the account
// was disabled or its epoch raised (a new password) since then.
func insertSession(ctx context.Context, tx pgx.Tx, l live, address string, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO session (id, account_id, client_address, created_at)
		SELECT $1, a.id, $4, $5 FROM account a WHERE a.id = $2 AND a.epoch = $3 AND a.disabled_at IS NULL
		FOR SHARE OF a`, l.sessionID, l.accountID, l.epoch, address, at)
	if err != nil {
		return false, fmt.Errorf("open the session: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

func insertRefresh(ctx context.Context, tx pgx.Tx, hash []byte, sessionID string, at time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO refresh_token (hash, session_id, issued_at, expires_at) VALUES ($1, $2, $3, $4)`,
		hash, sessionID, at, at.Add(RefreshTTL))
	if err != nil {
		return fmt.Errorf("store the refresh token: %w", err)
	}
	return nil
}

// useRefresh marks a token used, once: of two that race, one gets ok.
func useRefresh(ctx context.Context, tx pgx.Tx, hash []byte, at time.Time) (sessionID string, ok bool, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE refresh_token SET used_at = $2 WHERE hash = $1 AND used_at IS NULL AND expires_at > $2
		RETURNING session_id`, hash, at).Scan(&sessionID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("use the refresh token: %w", err)
	}
	return sessionID, true, nil
}

// usedRefresh answers when a token was used, and errRefresh for one that is unknown or expired unused.
func usedRefresh(ctx context.Context, tx pgx.Tx, hash []byte) (sessionID string, usedAt time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT session_id, used_at FROM refresh_token WHERE hash = $1 AND used_at IS NOT NULL`, hash).
		Scan(&sessionID, &usedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", time.Time{}, errRefresh
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("look at the refresh token: %w", err)
	}
	return sessionID, usedAt, nil
}

// revoke ends a session; false where it had ended before.
func revoke(ctx context.Context, tx pgx.Tx, sessionID, reason string, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE session SET revoked_at = $2, revoked_reason = $3 WHERE id = $1 AND revoked_at IS NULL`,
		sessionID, at, reason)
	if err != nil {
		return false, fmt.Errorf("revoke the session: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
