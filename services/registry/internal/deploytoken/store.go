package deploytoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads and writes tokens.
type Store struct{}

const columns = `id, deployment_id, name, prefix, hash, created_at, revoked_at, revoked_epoch`

func scan(row pgx.Row) (*Token, error) {
	t := &Token{}
	err := row.Scan(&t.ID, &t.DeploymentID, &t.Name, &t.Prefix, &t.Hash, &t.CreatedAt, &t.RevokedAt, &t.RevokedEpoch)
	return t, err
}

// Insert inserts a new token.
func (Store) Insert(ctx context.Context, tx pgx.Tx, t *Token) error {
	_, err := tx.Exec(ctx, `INSERT INTO deployment_token (id, deployment_id, name, prefix, hash, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)`, t.ID, t.DeploymentID, t.Name, t.Prefix, t.Hash, t.CreatedAt)
	if err != nil {
		return fmt.Errorf("insert a deployment token: %w", err)
	}
	return nil
}

// List returns the tokens of a deployment, newest first.
func (Store) List(ctx context.Context, q pg.Querier, deploymentID string, p request.Page) ([]*Token, error) {
	return many(ctx, q, `deployment_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`, deploymentID, p.FetchLimit(), p.Offset)
}

// Live returns a page of the tokens of all deployments that are not revoked: at most limit tokens with ids greater than
// the given id, in order of their ids.
func (Store) Live(ctx context.Context, q pg.Querier, after string, limit int) ([]*Token, error) {
	return many(ctx, q, `id > $1 AND revoked_at IS NULL ORDER BY id LIMIT $2`, after, limit)
}

// ByIDs returns the tokens with the given ids, revoked or not.
func (Store) ByIDs(ctx context.Context, q pg.Querier, ids []string) ([]*Token, error) {
	return many(ctx, q, `id = ANY($1)`, ids)
}

// LockLive returns the ids of the tokens of a deployment that are not revoked, and locks their rows until the
// transaction ends.
func (Store) LockLive(ctx context.Context, tx pgx.Tx, deploymentID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT id FROM deployment_token WHERE deployment_id = $1 AND revoked_at IS NULL ORDER BY id FOR UPDATE`, deploymentID)
	if err != nil {
		return nil, fmt.Errorf("lock the tokens of a deployment: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("lock the tokens of a deployment: %w", err)
	}
	return ids, nil
}

func many(ctx context.Context, q pg.Querier, where string, args ...any) ([]*Token, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM deployment_token WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read deployment tokens: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Token, error) { return scan(row) })
	if err != nil {
		return nil, fmt.Errorf("read deployment tokens: %w", err)
	}
	return found, nil
}

// Lock returns a token of a deployment and locks its row until the transaction ends.
func (Store) Lock(ctx context.Context, tx pgx.Tx, deploymentID, tokenID string) (*Token, error) {
	t, err := scan(tx.QueryRow(ctx, `SELECT `+columns+` FROM deployment_token
		WHERE deployment_id = $1 AND id = $2 FOR UPDATE`, deploymentID, tokenID))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(Kind, tokenID)
	}
	if err != nil {
		return nil, fmt.Errorf("load a deployment token: %w", err)
	}
	return t, nil
}

// Revoke marks a token as revoked from the given epoch on.
func (Store) Revoke(ctx context.Context, tx pgx.Tx, tokenID string, at time.Time, epoch int64) error {
	tag, err := tx.Exec(ctx, `UPDATE deployment_token SET revoked_at = $2, revoked_epoch = $3
		WHERE id = $1 AND revoked_at IS NULL`, tokenID, at, epoch)
	if err != nil {
		return fmt.Errorf("revoke a deployment token: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fault.New(fault.Conflict, "token_revoked", "the token is already revoked")
	}
	return nil
}

// RevokeAll marks all tokens of a deployment as revoked from the given epoch on, except those that are already revoked.
func (Store) RevokeAll(ctx context.Context, tx pgx.Tx, deploymentID string, at time.Time, epoch int64) error {
	_, err := tx.Exec(ctx, `UPDATE deployment_token SET revoked_at = $2, revoked_epoch = $3
		WHERE deployment_id = $1 AND revoked_at IS NULL`, deploymentID, at, epoch)
	if err != nil {
		return fmt.Errorf("revoke the tokens of a deployment: %w", err)
	}
	return nil
}
