package quota

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// accountLimit is the name of the constraint that prevents an account from holding more GPUs than its limit.
const accountLimit = "account_limit"

// Move moves the GPUs that jobs hold from their former owner's account to the new owner's. It ends no attempt. If the
// new owner's account has the default limit, it may exceed the limit and then gets no GPUs until it is below the limit
// again. If it has its own limit, which the GPUs would exceed, Move returns a conflict.
func (l Ledger) Move(ctx context.Context, tx pgx.Tx, from, to string, gpus int) error {
	if gpus == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO account (user_id, gpu_limit) VALUES ($1, $2) ON CONFLICT (user_id) DO NOTHING`, to, l.Default)
	if err != nil {
		return fmt.Errorf("create the account: %w", err)
	}
	// Lock in one order, so that two moves never deadlock.
	if _, err := tx.Exec(ctx, `SELECT FROM account WHERE user_id IN ($1, $2) ORDER BY user_id FOR UPDATE`, from, to); err != nil {
		return fmt.Errorf("lock the accounts: %w", err)
	}
	if err := l.Release(ctx, tx, Holder{UserID: from}, gpus); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE account SET held = held + $2,
			gpu_limit = CASE WHEN set_limit IS NULL THEN greatest(gpu_limit, held + $2) ELSE set_limit END
		WHERE user_id = $1`, to, gpus)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.ConstraintName == accountLimit {
		return fault.New(fault.Conflict, "quota",
			"quota: the new owner's limit does not allow %d more GPUs; raise the limit or stop the jobs that hold them", gpus).Wrap(err)
	}
	if err != nil {
		return fmt.Errorf("move held GPUs: %w", err)
	}
	return nil
}
