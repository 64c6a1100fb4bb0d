package tablefeed

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Feed is the record of the changes of one table, by the name of that table. For the table job, the triggers of job
// write the rows of job_change, whose column job_id has the id of the row, and job_feed has the newest position.
type Feed string

// The feeds of this service.
const (
	Jobs Feed = "job"
	Runs Feed = "run"
)

func (f Feed) changes() string { return string(f) + `_change` }
func (f Feed) head() string    { return string(f) + `_feed` }
func (f Feed) id() string      { return string(f) + `_id` }

// numberBatch is how many changes one transaction numbers.
const numberBatch = 1000

// Number gives positions to all committed changes. They rise in the order in which this function sees the changes, so
// that a reader that has read up to a position has missed none, whenever the transactions of the changes commit. It
// returns the newest position: a later read of the table contains all changes up to it.
func (f Feed) Number(ctx context.Context, db interface {
	pg.Querier
	pg.Beginner
},
) (last int64, err error) {
	for {
		var pending bool
		err := db.QueryRow(ctx, `SELECT last, EXISTS (SELECT FROM `+f.changes()+` WHERE seq IS NULL) FROM `+f.head()).Scan(&last, &pending)
		if err != nil {
			return 0, fmt.Errorf("look for new changes of the table %s: %w", f, err)
		}
		if !pending {
			return last, nil
		}
		if err := pg.InTx(ctx, db, f.number); err != nil {
			return 0, err
		}
	}
}

func (f Feed) number(ctx context.Context, tx pgx.Tx) error {
	last, err := f.lock(ctx, tx)
	if err != nil {
		return err
	}
	// A statement of its own: its snapshot must contain what earlier holders of the lock have numbered.
	_, err = tx.Exec(ctx, `WITH pending AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM (
			SELECT id FROM `+f.changes()+` WHERE seq IS NULL ORDER BY id LIMIT $2) p),
		numbered AS (UPDATE `+f.changes()+` c SET seq = $1 + p.n FROM pending p WHERE c.id = p.id RETURNING c.id)
		UPDATE `+f.head()+` SET last = $1 + (SELECT count(*) FROM numbered)`, last, numberBatch)
	if err != nil {
		return fmt.Errorf("number the changes of the table %s: %w", f, err)
	}
	return nil
}

// lock excludes other transactions that number or delete changes, and returns the newest position.
func (f Feed) lock(ctx context.Context, tx pgx.Tx) (last int64, err error) {
	if err := tx.QueryRow(ctx, `SELECT last FROM `+f.head()+` FOR UPDATE`).Scan(&last); err != nil {
		return 0, fmt.Errorf("lock the changes of the table %s: %w", f, err)
	}
	return last, nil
}

// Delete deletes at most limit changes that are older than the given time, and returns their number. If some of them have
// no position, it invalidates all positions that were handed out, because their readers have missed changes.
func (f Feed) Delete(ctx context.Context, db pg.Beginner, before time.Time, limit int) (n int64, err error) {
	err = pg.InTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := f.lock(ctx, tx); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `WITH old AS (DELETE FROM `+f.changes()+` WHERE id IN (
				SELECT id FROM `+f.changes()+` WHERE at < $1 ORDER BY at LIMIT $2) RETURNING seq),
			sums AS (SELECT count(*) AS total, count(*) - count(seq) AS lost, max(seq) AS newest FROM old)
			UPDATE `+f.head()+` SET last = last + lost,
				oldest = CASE WHEN lost > 0 THEN last + lost ELSE greatest(oldest, newest) END FROM sums RETURNING total`, before, limit).Scan(&n)
		if err != nil {
			return fmt.Errorf("delete old changes of the table %s: %w", f, err)
		}
		return nil
	})
	return n, err
}
