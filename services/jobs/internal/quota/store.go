package quota

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Ledger reads and writes the accounts.
type Ledger struct {
	// Default is the limit of an account without one of its own.
	Default int
}

// Account answers what an account may hold and holds; one without a row holds nothing.
func (l Ledger) Account(ctx context.Context, q pg.Querier, userID string) (Account, error) {
	var a Account
	err := q.QueryRow(ctx, `SELECT
			coalesce((SELECT CASE WHEN own_limit THEN gpu_limit ELSE $2 END FROM account WHERE user_id = $1), $2),
			coalesce((SELECT held FROM account WHERE user_id = $1), 0),
			coalesce((SELECT sum(gpus) FROM job WHERE owner_id = $1 AND state = 'queued'), 0)`,
		userID, l.Default).Scan(&a.Limit, &a.Held, &a.Queued)
	if err != nil {
		return a, fmt.Errorf("read the account: %w", err)
	}
	return a, nil
}

// Accounts answers the accounts of these users; Queued is left out.
func (l Ledger) Accounts(ctx context.Context, q pg.Querier, userIDs []string) (map[string]Account, error) {
	rows, err := q.Query(ctx, `SELECT user_id, CASE WHEN own_limit THEN gpu_limit ELSE $2 END, held
		FROM account WHERE user_id = ANY($1)`, userIDs, l.Default)
	if err != nil {
		return nil, fmt.Errorf("read the accounts: %w", err)
	}
	accounts := make(map[string]Account, len(userIDs))
	for _, id := range userIDs {
		accounts[id] = Account{Limit: l.Default}
	}
	var id string
	var a Account
	_, err = pgx.ForEachRow(rows, []any{&id, &a.Limit, &a.Held}, func() error {
		accounts[id] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the accounts: %w", err)
	}
	return accounts, nil
}

// Reserve adds to what an account holds if its limit allows, and keeps the row locked until the
// transaction ends. A limit that was lowered under what is held lets nothing new in.
func (l Ledger) Reserve(ctx context.Context, tx pgx.Tx, userID string, gpus int) (bool, error) {
	if gpus == 0 {
		return true, nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO account (user_id, gpu_limit) VALUES ($1, $2)
		ON CONFLICT (user_id) DO UPDATE SET gpu_limit =
			CASE WHEN account.own_limit THEN account.gpu_limit ELSE greatest($2, account.held) END`, userID, l.Default)
	if err != nil {
		return false, fmt.Errorf("lock the account: %w", err)
	}
	tag, err := tx.Exec(ctx, `UPDATE account SET held = held + $2 WHERE user_id = $1 AND held + $2 <= gpu_limit`, userID, gpus)
	if err != nil {
		return false, fmt.Errorf("reserve quota: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Release gives back what an attempt held.
func (l Ledger) Release(ctx context.Context, tx pgx.Tx, userID string, gpus int) error {
	if gpus == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `UPDATE account SET held = held - $2 WHERE user_id = $1`, userID, gpus); err != nil {
		return fmt.Errorf("release quota: %w", err)
	}
	return nil
}
