package transfer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

func count(ctx context.Context, q pg.Querier, userID string) (n int, err error) {
	if err = q.QueryRow(ctx, `SELECT count(*) FROM run WHERE owner_id = $1`, userID).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the runs of a user: %w", err)
	}
	return n, nil
}

func give(ctx context.Context, tx pgx.Tx, from, to string) (int, error) {
	tag, err := tx.Exec(ctx, `UPDATE run SET owner_id = $2, former_owner_id = $1 WHERE owner_id = $1`, from, to)
	if err != nil {
		return 0, fmt.Errorf("transfer runs: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
