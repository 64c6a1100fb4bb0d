package device

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// lockWindow lets only one transaction at a time count and add attempts with this purpose and key. It returns the time
// of the database, which all replicas share.
func lockWindow(ctx context.Context, tx pgx.Tx, purpose, key string) (time.Time, error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('device:' || $1 || ':' || $2, 0))`, purpose, key); err != nil {
		return time.Time{}, fmt.Errorf("lock the %s attempts: %w", purpose, err)
	}
	return pg.Now(ctx, tx)
}

func countAttempts(ctx context.Context, tx pgx.Tx, purpose, key string, since time.Time) (n int, oldest time.Time, err error) {
	var first *time.Time
	row := tx.QueryRow(ctx, `SELECT count(*), min(at) FROM device_attempt WHERE purpose = $1 AND key = $2 AND at > $3`, purpose, key, since)
	if err := row.Scan(&n, &first); err != nil {
		return 0, time.Time{}, fmt.Errorf("count the %s attempts: %w", purpose, err)
	}
	if first != nil {
		oldest = *first
	}
	return n, oldest, nil
}

func insertAttempt(ctx context.Context, tx pgx.Tx, purpose, key string, at time.Time) (id int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO device_attempt (purpose, key, at) VALUES ($1, $2, $3) RETURNING id`, purpose, key, at).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("store a %s attempt: %w", purpose, err)
	}
	return id, nil
}

// forgive deletes attempts that were not wrong guesses.
func forgive(ctx context.Context, q pg.Querier, ids []int64) error {
	if _, err := q.Exec(ctx, `DELETE FROM device_attempt WHERE id = ANY($1)`, ids); err != nil {
		return fmt.Errorf("delete attempts that were not wrong guesses: %w", err)
	}
	return nil
}

// forget deletes attempts from before the given time.
func forget(ctx context.Context, q pg.Querier, before time.Time) error {
	if _, err := q.Exec(ctx, `DELETE FROM device_attempt WHERE at < $1`, before); err != nil {
		return fmt.Errorf("delete old attempts: %w", err)
	}
	return nil
}
