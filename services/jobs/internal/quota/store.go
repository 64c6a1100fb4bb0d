package quota

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Account answers what a user may hold and holds; one without a row holds nothing.
func (l Ledger) Account(ctx context.Context, q pg.Querier, userID string) (Account, error) {
	all, err := l.Accounts(ctx, q, User, []string{userID})
	return all[userID], err
}

// Team answers what a team may hold and holds.
func (l Ledger) Team(ctx context.Context, q pg.Querier, teamID string) (Account, error) {
	all, err := l.Accounts(ctx, q, Team, []string{teamID})
	return all[teamID], err
}

// Holding answers what these holders of one kind may hold and hold; Queued is left out.
func (l Ledger) Holding(ctx context.Context, q pg.Querier, k Kind, ids []string) (map[string]Account, error) {
	return l.read(ctx, q, k, ids, `SELECT NULL::text AS id, 0 AS gpus WHERE false`)
}

// Accounts answers what these holders of one kind may hold, hold and wait for.
func (l Ledger) Accounts(ctx context.Context, q pg.Querier, k Kind, ids []string) (map[string]Account, error) {
	waiting := `SELECT owner_id AS id, sum(gpus) AS gpus FROM job WHERE state = 'queued' AND owner_id = ANY($1) GROUP BY owner_id`
	if k == Team {
		waiting = `SELECT team_id AS id, sum(gpus) AS gpus FROM job WHERE state = 'queued' AND team_id <> '' AND team_id = ANY($1) GROUP BY team_id`
	}
	return l.read(ctx, q, k, ids, waiting)
}

func (l Ledger) read(ctx context.Context, q pg.Querier, k Kind, ids []string, waiting string) (map[string]Account, error) {
	rows, err := q.Query(ctx, `SELECT asked.id, coalesce(a.set_limit, $2), coalesce(a.held, 0), coalesce(w.gpus, 0)
		FROM (SELECT DISTINCT unnest($1::text[]) AS id) asked
			LEFT JOIN account a ON a.user_id = asked.id LEFT JOIN (`+waiting+`) w ON w.id = asked.id`, ids, l.otherwise(k))
	if err != nil {
		return nil, fmt.Errorf("read the accounts: %w", err)
	}
	accounts := make(map[string]Account, len(ids))
	var id string
	var a Account
	_, err = pgx.ForEachRow(rows, []any{&id, &a.Limit, &a.Held, &a.Queued}, func() error {
		accounts[id] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the accounts: %w", err)
	}
	return accounts, nil
}

// Reserve adds to what the holder's account and team hold if both limits allow, and keeps their rows locked
// until the transaction ends. Where it answers false the transaction is to be given up. A limit that was
// lowered under what is held lets nothing new in.
func (l Ledger) Reserve(ctx context.Context, tx pgx.Tx, h Holder, gpus int) (bool, error) {
	if gpus == 0 {
		return true, nil
	}
	ok, err := l.reserve(ctx, tx, User, h.UserID, gpus)
	if err != nil || !ok || h.TeamID == "" {
		return ok, err
	}
	return l.reserve(ctx, tx, Team, h.TeamID, gpus)
}

func (l Ledger) reserve(ctx context.Context, tx pgx.Tx, k Kind, id string, gpus int) (bool, error) {
	if err := l.lock(ctx, tx, k, id); err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, `UPDATE account SET held = held + $2 WHERE user_id = $1 AND held + $2 <= coalesce(set_limit, $3)`,
		id, gpus, l.otherwise(k))
	if err != nil {
		return false, fmt.Errorf("reserve quota: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// lock keeps a holder's row locked, which it makes where it is missing, with the limit that counts now.
func (l Ledger) lock(ctx context.Context, tx pgx.Tx, k Kind, id string) error {
	_, err := tx.Exec(ctx, `INSERT INTO account (user_id, kind, gpu_limit) VALUES ($1, $2, $3)
		ON CONFLICT (user_id) DO UPDATE SET gpu_limit = greatest(coalesce(account.set_limit, $3), account.held)`, id, k, l.otherwise(k))
	if err != nil {
		return fmt.Errorf("lock the account: %w", err)
	}
	return nil
}

// Release gives back what an attempt held, to whom it counted against.
func (l Ledger) Release(ctx context.Context, tx pgx.Tx, h Holder, gpus int) error {
	if gpus == 0 {
		return nil
	}
	for _, id := range []string{h.UserID, h.TeamID} {
		if _, err := tx.Exec(ctx, `UPDATE account SET held = held - $2 WHERE user_id = $1 AND $1 <> ''`, id, gpus); err != nil {
			return fmt.Errorf("release quota: %w", err)
		}
	}
	return nil
}

// Set gives a holder a limit of its own, or with nil the installation's default again, and answers the limit
// of its own that it had before.
func (l Ledger) Set(ctx context.Context, tx pgx.Tx, k Kind, id string, limit *int, by string) (before *int, err error) {
	if err := l.lock(ctx, tx, k, id); err != nil {
		return nil, err
	}
	if err := tx.QueryRow(ctx, `SELECT set_limit FROM account WHERE user_id = $1`, id).Scan(&before); err != nil {
		return nil, fmt.Errorf("read the limit: %w", err)
	}
	// The release before reads own_limit with gpu_limit.
	_, err = tx.Exec(ctx, `UPDATE account SET set_limit = $2::int, own_limit = $2::int IS NOT NULL, set_by = $4, set_at = now(),
		gpu_limit = greatest(coalesce($2::int, $3), held) WHERE user_id = $1`, id, limit, l.otherwise(k), by)
	if err != nil {
		return nil, fmt.Errorf("set the limit: %w", err)
	}
	return before, nil
}
