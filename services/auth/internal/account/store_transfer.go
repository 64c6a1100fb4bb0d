package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// pendingTransfer returns the id of the account that receives the objects of userID, or an empty string if no
// transfer is pending. The caller must have locked the account of userID.
func pendingTransfer(ctx context.Context, tx pgx.Tx, userID string) (to string, err error) {
	if err := tx.QueryRow(ctx, `SELECT coalesce(transfer_to_id, '') FROM account WHERE id = $1`, userID).Scan(&to); err != nil {
		return "", fmt.Errorf("load the pending transfer: %w", err)
	}
	return to, nil
}

func setTransfer(ctx context.Context, tx pgx.Tx, userID string, to *string) error {
	if _, err := tx.Exec(ctx, `UPDATE account SET transfer_to_id = $2 WHERE id = $1`, userID, to); err != nil {
		return fmt.Errorf("store the receiver of the transfer: %w", err)
	}
	return nil
}

// giveUp cancels a transfer that has not moved any object yet. It receives the error that stopped the transfer and
// returns this error, joined with its own error if the cancellation fails.
func giveUp(ctx context.Context, q pg.Querier, userID, to string, why error) error {
	_, err := q.Exec(ctx, `UPDATE account SET transfer_to_id = NULL WHERE id = $1 AND transfer_to_id = $2`, userID, to)
	if err != nil {
		return errors.Join(why, fmt.Errorf("clear the transfer: %w", err))
	}
	return why
}

// sole selects the projects that the account owns and that have no other enabled owner.
const sole = `SELECT m.project_id FROM membership m WHERE m.account_id = $1 AND m.role = 'owner' AND NOT EXISTS (
	SELECT FROM membership o JOIN account a ON a.id = o.account_id
	WHERE o.project_id = m.project_id AND o.role = 'owner' AND o.account_id <> $1 AND a.disabled_at IS NULL)`

func soleProjects(ctx context.Context, q pg.Querier, userID string) ([]string, error) {
	rows, err := q.Query(ctx, sole+` ORDER BY 1`, userID)
	if err != nil {
		return nil, fmt.Errorf("list the projects without another owner: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the projects without another owner: %w", err)
	}
	return ids, nil
}

// giveProjects transfers the former owner's projects that have no other enabled owner to a new owner, and removes the
// former owner from them. It returns the ids of these projects.
func giveProjects(ctx context.Context, tx pgx.Tx, from, to string) ([]string, error) {
	_, err := tx.Exec(ctx, `SELECT FROM project WHERE id IN (SELECT project_id FROM membership WHERE account_id = $1 AND role = 'owner')
		ORDER BY id FOR NO KEY UPDATE`, from)
	if err != nil {
		return nil, fmt.Errorf("lock the projects of an owner: %w", err)
	}
	ids, err := soleProjects(ctx, tx, from)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO membership (project_id, account_id, role) SELECT unnest($1::text[]), $2, 'owner'
		ON CONFLICT (account_id, project_id) DO UPDATE SET role = 'owner'`, ids, to)
	if err != nil {
		return nil, fmt.Errorf("transfer the projects: %w", err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM membership WHERE account_id = $1 AND project_id = ANY($2)`, from, ids); err != nil {
		return nil, fmt.Errorf("remove the former owner from the projects: %w", err)
	}
	return ids, nil
}
