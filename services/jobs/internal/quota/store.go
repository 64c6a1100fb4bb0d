package quota

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Account returns a user's account; a user without a row holds nothing.
func (l Ledger) Account(ctx context.Context, q pg.Querier, userID string) (Account, error) {
	all, err := l.Accounts(ctx, q, User, []string{userID})
	return all[userID], err
}

// Team returns a team's account.
func (l Ledger) Team(ctx context.Context, q pg.Querier, teamID string) (Account, error) {
	all, err := l.Accounts(ctx, q, Team, []string{teamID})
	return all[teamID], err
}

// Holding is like Accounts, but does not compute Queued.
func (l Ledger) Holding(ctx context.Context, q pg.Querier, k Kind, ids []string) (map[string]Account, error) {
	return l.read(ctx, q, k, ids, `0`)
}

// Accounts returns the accounts of holders of one kind.
func (l Ledger) Accounts(ctx context.Context, q pg.Querier, k Kind, ids []string) (map[string]Account, error) {
	waiting := `(SELECT coalesce(sum(gpus), 0) FROM job WHERE state = 'queued' AND owner_id = wanted.id)`
	if k == Team {
		waiting = `(SELECT coalesce(sum(gpus), 0) FROM job WHERE state = 'queued' AND team_id <> '' AND team_id = wanted.id)`
	}
	return l.read(ctx, q, k, ids, waiting)
}

// engineRows selects the engines that hold GPUs. Their GPUs are not part of the column account.held, which counts only
// the GPUs of attempts.
const engineRows = `work WHERE kind = 'engine' AND node_id <> '' AND released_at IS NULL AND gpus > 0`

// enginesOf returns the SQL expression for the number of GPUs that the engines of a user, or of a team's projects,
// hold. The parameter id is the SQL expression for the holder's id.
func enginesOf(k Kind, id string) string {
	if k == Team {
		return `(SELECT coalesce(sum(gpus), 0) FROM ` + engineRows + ` AND team_id <> '' AND team_id = ` + id + `)`
	}
	return `(SELECT coalesce(sum(gpus), 0) FROM ` + engineRows + ` AND owner_id = ` + id + `)`
}

// read returns the accounts of holders. Each sum uses an index of its own: most callers read one account, and a join of
// grouped rows would cost more to set up than to run. The parameter waiting is the SQL expression for Queued. A single
// id is passed as text, not as an array: Postgres plans a statement with an array again at each call, which takes five
// times as long as the execution.
func (l Ledger) read(ctx context.Context, q pg.Querier, k Kind, ids []string, waiting string) (map[string]Account, error) {
	wanted, of := `unnest($1::text[]) AS wanted (id)`, any(ids)
	if len(ids) == 1 {
		wanted, of = `(SELECT $1::text AS id) AS wanted`, ids[0]
	}
	rows, err := q.Query(ctx, `SELECT wanted.id, coalesce(a.set_limit, $2),
			coalesce(a.held, 0) + `+enginesOf(k, `wanted.id`)+`, `+waiting+`
		FROM `+wanted+` LEFT JOIN account a ON a.user_id = wanted.id`, of, l.otherwise(k))
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

// Reserve adds GPUs to the holdings of the account and the team if both limits allow it, and keeps their rows locked
// until the transaction ends. If it returns false, the caller must roll back. While an account holds more GPUs than
// its lowered limit, it cannot reserve more.
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
	tag, err := tx.Exec(ctx, `UPDATE account SET held = held + $2 WHERE user_id = $1
			AND held + $2 + `+enginesOf(k, `$1`)+` <= coalesce(set_limit, $3)`, id, gpus, l.otherwise(k))
	if err != nil {
		return false, fmt.Errorf("reserve quota: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// ReserveEngine reports whether an engine's GPUs are within the limits of its owner and team, and keeps their rows locked
// until the transaction, which places the engine, ends.
func (l Ledger) ReserveEngine(ctx context.Context, tx pgx.Tx, h Holder, gpus int) (bool, error) {
	if gpus == 0 {
		return true, nil
	}
	ok, err := l.reserveEngine(ctx, tx, User, h.UserID, gpus)
	if err != nil || !ok || h.TeamID == "" {
		return ok, err
	}
	return l.reserveEngine(ctx, tx, Team, h.TeamID, gpus)
}

func (l Ledger) reserveEngine(ctx context.Context, tx pgx.Tx, k Kind, id string, gpus int) (ok bool, err error) {
	if err := l.lock(ctx, tx, k, id); err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, `SELECT held + $2 + `+enginesOf(k, `$1`)+` <= coalesce(set_limit, $3)
		FROM account WHERE user_id = $1`, id, gpus, l.otherwise(k)).Scan(&ok)
	if err != nil {
		return false, fmt.Errorf("reserve quota for an engine: %w", err)
	}
	return ok, nil
}

// lock creates a holder's row if it is missing, locks it and updates its limit.
func (l Ledger) lock(ctx context.Context, tx pgx.Tx, k Kind, id string) error {
	_, err := tx.Exec(ctx, `INSERT INTO account (user_id, kind, gpu_limit) VALUES ($1, $2, $3)
		ON CONFLICT (user_id) DO UPDATE SET gpu_limit = greatest(coalesce(account.set_limit, $3), account.held)`, id, k, l.otherwise(k))
	if err != nil {
		return fmt.Errorf("lock the account: %w", err)
	}
	return nil
}

// Release subtracts the GPUs of an attempt from the holdings that they counted against.
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

// Set sets a holder's own limit, or with nil restores the installation's default. It returns the previous own limit.
func (l Ledger) Set(ctx context.Context, tx pgx.Tx, k Kind, id string, limit *int, by string) (before *int, err error) {
	if err := l.lock(ctx, tx, k, id); err != nil {
		return nil, err
	}
	if err := tx.QueryRow(ctx, `SELECT set_limit FROM account WHERE user_id = $1`, id).Scan(&before); err != nil {
		return nil, fmt.Errorf("read the limit: %w", err)
	}
	// The previous release still reads own_limit and gpu_limit.
	_, err = tx.Exec(ctx, `UPDATE account SET set_limit = $2::int, own_limit = $2::int IS NOT NULL, set_by = $4, set_at = now(),
		gpu_limit = greatest(coalesce($2::int, $3), held) WHERE user_id = $1`, id, limit, l.otherwise(k), by)
	if err != nil {
		return nil, fmt.Errorf("set the limit: %w", err)
	}
	return before, nil
}
