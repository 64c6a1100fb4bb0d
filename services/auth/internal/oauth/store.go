package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// errUsed means that a code or token is already used, although it was unused when the transaction locked it. This
// should never happen. No tokens are issued then.
var errUsed = errors.New("already used")

func upsertClient(ctx context.Context, q pg.Querier, c Client, at time.Time) error {
	_, err := q.Exec(ctx, `
		INSERT INTO oauth_client (id, name, redirect_uris, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, redirect_uris = EXCLUDED.redirect_uris`, c.ID, c.Name, c.Redirects, at)
	if err != nil {
		return fmt.Errorf("register client %s: %w", c.ID, err)
	}
	return nil
}

func loadClient(ctx context.Context, q pg.Querier, id string) (Client, error) {
	c := Client{ID: id}
	err := q.QueryRow(ctx, `SELECT name, redirect_uris FROM oauth_client WHERE id = $1`, id).Scan(&c.Name, &c.Redirects)
	if errors.Is(err, pgx.ErrNoRows) {
		return Client{}, errNoClient
	}
	if err != nil {
		return Client{}, fmt.Errorf("load the client: %w", err)
	}
	return c, nil
}

// grant is what a user allowed a client to do.
type grant struct {
	id, clientID, accountID string
	epoch                   int64
	resource, scope         string
	redirect, challenge     string
	createdAt, codeExpires  time.Time
	codeUsedAt              *time.Time
	// sessionID is empty until the code is exchanged.
	sessionID string
	revokedAt *time.Time
}

const grantColumns = `g.id, g.client_id, g.account_id, g.account_epoch, g.resource, g.scope, g.redirect_uri, g.code_challenge,
	g.created_at, g.code_expires_at, g.code_used_at, COALESCE(g.session_id, ''), g.revoked_at`

func (g *grant) into() []any {
	return []any{
		&g.id, &g.clientID, &g.accountID, &g.epoch, &g.resource, &g.scope, &g.redirect, &g.challenge,
		&g.createdAt, &g.codeExpires, &g.codeUsedAt, &g.sessionID, &g.revokedAt,
	}
}

func insertGrant(ctx context.Context, tx pgx.Tx, g grant, codeHash []byte) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO oauth_grant (id, client_id, account_id, account_epoch, resource, scope, redirect_uri, code_hash,
			code_challenge, created_at, code_expires_at)
		VALUES (@id, @client_id, @account_id, @account_epoch, @resource, @scope, @redirect_uri, @code_hash, @code_challenge,
			@created_at, @code_expires_at)`, pgx.StrictNamedArgs{
		"id": g.id, "client_id": g.clientID, "account_id": g.accountID, "account_epoch": g.epoch, "resource": g.resource,
		"scope": g.scope, "redirect_uri": g.redirect, "code_hash": codeHash, "code_challenge": g.challenge,
		"created_at": g.createdAt, "code_expires_at": g.codeExpires,
	})
	if err != nil {
		return fmt.Errorf("store the grant: %w", err)
	}
	return nil
}

// lockCode finds the grant of a code and locks the grant, so that concurrent exchanges of the code run one after
// another.
func lockCode(ctx context.Context, tx pgx.Tx, hash []byte) (grant, bool, error) {
	return one(tx.QueryRow(ctx, `SELECT `+grantColumns+` FROM oauth_grant g WHERE code_hash = $1 FOR UPDATE`, hash))
}

// ofSession finds the grant of a session and locks the grant.
func ofSession(ctx context.Context, tx pgx.Tx, sessionID string) (grant, bool, error) {
	return one(tx.QueryRow(ctx, `SELECT `+grantColumns+` FROM oauth_grant g WHERE session_id = $1 FOR UPDATE`, sessionID))
}

func one(row pgx.Row) (g grant, ok bool, err error) {
	err = row.Scan(g.into()...)
	if errors.Is(err, pgx.ErrNoRows) {
		return grant{}, false, nil
	}
	if err != nil {
		return grant{}, false, fmt.Errorf("load the grant: %w", err)
	}
	return g, true, nil
}

// useCode marks a locked code as exchanged for the session.
func useCode(ctx context.Context, tx pgx.Tx, grantID, sessionID string, at time.Time) error {
	tag, err := tx.Exec(ctx, `UPDATE oauth_grant SET code_used_at = $3, session_id = $2 WHERE id = $1 AND code_used_at IS NULL`,
		grantID, sessionID, at)
	if err == nil && tag.RowsAffected() != 1 {
		err = errUsed
	}
	if err != nil {
		return fmt.Errorf("mark the code as used: %w", err)
	}
	return nil
}

// allows reports whether the account is enabled and still has the epoch of the grant. It locks the account, so that
// the result stays true until the transaction ends.
func allows(ctx context.Context, tx pgx.Tx, g grant) (bool, error) {
	tag, err := tx.Exec(ctx, `SELECT FROM account WHERE id = $1 AND epoch = $2 AND disabled_at IS NULL FOR SHARE`, g.accountID, g.epoch)
	if err != nil {
		return false, fmt.Errorf("check the account that allowed the grant: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// revokeGrant revokes a grant. It returns false if the grant was already revoked.
func revokeGrant(ctx context.Context, tx pgx.Tx, grantID, why string, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE oauth_grant SET revoked_at = $2, revoked_reason = $3 WHERE id = $1 AND revoked_at IS NULL`, grantID, at, why)
	if err != nil {
		return false, fmt.Errorf("revoke the grant: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// refreshToken is one refresh token of a grant.
type refreshToken struct {
	grant

	expiresAt time.Time
	usedAt    *time.Time
}

// lockRefresh finds a refresh token and locks the token and its grant, so that concurrent uses of the grant's refresh
// tokens run one after another.
func lockRefresh(ctx context.Context, tx pgx.Tx, hash []byte) (r refreshToken, ok bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT r.expires_at, r.used_at, `+grantColumns+` FROM oauth_refresh_token r JOIN oauth_grant g ON g.id = r.grant_id
		WHERE r.hash = $1 FOR UPDATE`, hash).Scan(append([]any{&r.expiresAt, &r.usedAt}, r.into()...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return refreshToken{}, false, nil
	}
	if err != nil {
		return refreshToken{}, false, fmt.Errorf("load the refresh token: %w", err)
	}
	return r, true, nil
}

// useRefresh marks a locked refresh token as used.
func useRefresh(ctx context.Context, tx pgx.Tx, hash []byte, at time.Time) error {
	tag, err := tx.Exec(ctx, `UPDATE oauth_refresh_token SET used_at = $2 WHERE hash = $1 AND used_at IS NULL`, hash, at)
	if err == nil && tag.RowsAffected() != 1 {
		err = errUsed
	}
	if err != nil {
		return fmt.Errorf("mark the refresh token as used: %w", err)
	}
	return nil
}

func insertRefresh(ctx context.Context, tx pgx.Tx, hash []byte, grantID string, at time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO oauth_refresh_token (hash, grant_id, issued_at, expires_at) VALUES ($1, $2, $3, $4)`,
		hash, grantID, at, at.Add(RefreshTTL))
	if err != nil {
		return fmt.Errorf("store the refresh token: %w", err)
	}
	return nil
}

func deleteGrants(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM oauth_grant WHERE id IN (
		SELECT id FROM oauth_grant g WHERE g.code_expires_at < $1
			AND NOT EXISTS (SELECT FROM oauth_refresh_token r WHERE r.grant_id = g.id AND r.expires_at >= $1)
		ORDER BY g.code_expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete expired grants: %w", err)
	}
	return tag.RowsAffected(), nil
}
