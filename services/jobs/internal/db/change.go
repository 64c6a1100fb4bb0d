package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// numberBatch is how many changes one transaction numbers.
const numberBatch = 1000

// NumberChanges gives positions to all committed changes. They rise in the order in which this function sees the changes,
// so that a reader that has read up to a position has missed none, whenever the transactions of the changes commit. It
// returns the newest position: a later read of the table job contains all changes up to it.
func NumberChanges(ctx context.Context, db interface {
	pg.Querier
	pg.Beginner
},
) (last int64, err error) {
	for {
		var pending bool
		err := db.QueryRow(ctx, `SELECT last, EXISTS (SELECT FROM job_change WHERE seq IS NULL) FROM job_feed`).Scan(&last, &pending)
		if err != nil {
			return 0, fmt.Errorf("look for new changes of jobs: %w", err)
		}
		if !pending {
			return last, nil
		}
		if err := pg.InTx(ctx, db, numberChanges); err != nil {
			return 0, err
		}
	}
}

func numberChanges(ctx context.Context, tx pgx.Tx) error {
	last, err := lockFeed(ctx, tx)
	if err != nil {
		return err
	}
	// A statement of its own: its snapshot must contain what earlier holders of the lock have numbered.
	_, err = tx.Exec(ctx, `WITH pending AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM (
			SELECT id FROM job_change WHERE seq IS NULL ORDER BY id LIMIT $2) p),
		numbered AS (UPDATE job_change c SET seq = $1 + p.n FROM pending p WHERE c.id = p.id RETURNING c.id)
		UPDATE job_feed SET last = $1 + (SELECT count(*) FROM numbered)`, last, numberBatch)
	if err != nil {
		return fmt.Errorf("number changes of jobs: %w", err)
	}
	return nil
}

// lockFeed excludes other transactions that number or delete changes, and returns the newest position.
func lockFeed(ctx context.Context, tx pgx.Tx) (last int64, err error) {
	if err := tx.QueryRow(ctx, `SELECT last FROM job_feed FOR UPDATE`).Scan(&last); err != nil {
		return 0, fmt.Errorf("lock the feed of job changes: %w", err)
	}
	return last, nil
}

// DeleteChanges deletes at most limit changes that are older than the given time, and returns their number. If some of
// them have no position, it invalidates all positions that were handed out, because their readers have missed changes.
func DeleteChanges(ctx context.Context, db pg.Beginner, before time.Time, limit int) (n int64, err error) {
	err = pg.InTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := lockFeed(ctx, tx); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `WITH old AS (DELETE FROM job_change WHERE id IN (
				SELECT id FROM job_change WHERE at < $1 ORDER BY at LIMIT $2) RETURNING seq),
			sums AS (SELECT count(*) AS total, count(*) - count(seq) AS lost, max(seq) AS newest FROM old)
			UPDATE job_feed SET last = last + lost,
				oldest = CASE WHEN lost > 0 THEN last + lost ELSE greatest(oldest, newest) END FROM sums RETURNING total`, before, limit).Scan(&n)
		if err != nil {
			return fmt.Errorf("delete old changes of jobs: %w", err)
		}
		return nil
	})
	return n, err
}
