package epoch

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/wake"
	"github.com/signalbox-dev/signalbox/services/registry/internal/topic"
)

// Bump raises the epoch in the transaction of a change, as its last step, and wakes the watchers.
func Bump(ctx context.Context, tx pgx.Tx) (int64, error) {
	var epoch int64
	if err := tx.QueryRow(ctx, `UPDATE snapshot_epoch SET epoch = epoch + 1 RETURNING epoch`).Scan(&epoch); err != nil {
		return 0, wrap("raise the snapshot epoch", err)
	}
	return epoch, wake.Notify(ctx, tx, topic.Snapshot)
}

// Current is the epoch of the last committed change.
func Current(ctx context.Context, q pg.Querier) (int64, error) {
	var epoch int64
	if err := q.QueryRow(ctx, `SELECT epoch FROM snapshot_epoch`).Scan(&epoch); err != nil {
		return 0, wrap("read the snapshot epoch", err)
	}
	return epoch, nil
}

// Behind answers the replicas with a live lease that do not have the epoch in force, and the clock that
// their leases run by.
func (l *Ledger) Behind(ctx context.Context, epoch int64) ([]Replica, time.Time, error) {
	now, err := pg.Now(ctx, l.Pool)
	if err != nil {
		return nil, now, err
	}
	rows, err := l.Pool.Query(ctx, `SELECT replica_id, lease_until FROM inference_replica
		WHERE lease_until > $1 AND acked_epoch < $2 AND released_at IS NULL ORDER BY lease_until, replica_id`, now, epoch)
	if err != nil {
		return nil, now, wrap("look for replicas that are behind", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Replica, err error) {
		return r, row.Scan(&r.ID, &r.Until)
	})
	if err != nil {
		return nil, now, wrap("look for replicas that are behind", err)
	}
	return found, now, nil
}

// touch stores an acknowledgement and, with it, a renewed lease; a newer epoch wakes who waits for it.
func (l *Ledger) touch(ctx context.Context, replicaID string, acked int64, renew bool) error {
	return pg.InTx(ctx, l.Pool, func(ctx context.Context, tx pgx.Tx) error {
		var before int64
		var released bool
		err := tx.QueryRow(ctx, `SELECT acked_epoch, released_at IS NOT NULL FROM inference_replica WHERE replica_id = $1 FOR UPDATE`,
			replicaID).Scan(&before, &released)
		switch {
		case released:
			return errReleased()
		case noRow(err) && !renew:
			return noLease()
		case err != nil && !noRow(err):
			return wrap("look for a replica", err)
		}
		if renew {
			err = l.grant(ctx, tx, replicaID, acked)
		} else if acked > before {
			_, err = tx.Exec(ctx, `UPDATE inference_replica SET acked_epoch = $2 WHERE replica_id = $1`, replicaID, acked)
			if err != nil {
				err = wrap("store an acknowledgement", err)
			}
		}
		if err != nil || acked <= before {
			return err
		}
		return wake.Notify(ctx, tx, topic.Acks)
	})
}

// grant lets a lease run anew, but never one that was given back: also where that was stored after the
// row was looked for in vain.
func (l *Ledger) grant(ctx context.Context, tx pgx.Tx, replicaID string, acked int64) error {
	// The clock is read after any wait for the row, never before.
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `INSERT INTO inference_replica AS r (replica_id, acked_epoch, lease_until) VALUES ($1, $2, $3)
		ON CONFLICT (replica_id) DO UPDATE SET acked_epoch = GREATEST(r.acked_epoch, excluded.acked_epoch),
			lease_until = GREATEST(r.lease_until, excluded.lease_until) WHERE r.released_at IS NULL`, replicaID, acked, now.Add(l.Lease))
	if err != nil {
		return wrap("renew a lease", err)
	}
	if tag.RowsAffected() == 0 {
		return errReleased()
	}
	return nil
}

// Release gives the leases of replicas back that serve no more: nobody waits for them from here on. A
// replica that has no row yet gets one, so that a renewal that is still under way is refused.
func (l *Ledger) Release(ctx context.Context, replicaIDs []string) error {
	return pg.InTx(ctx, l.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		// In one order, so that two that release the same do not wait for each other.
		tag, err := tx.Exec(ctx, `INSERT INTO inference_replica AS r (replica_id, acked_epoch, lease_until, released_at)
			SELECT DISTINCT id, 0, $2::timestamptz, $2::timestamptz FROM unnest($1::text[]) AS id ORDER BY id
			ON CONFLICT (replica_id) DO UPDATE SET released_at = excluded.released_at WHERE r.released_at IS NULL`, replicaIDs, now)
		if err != nil {
			return wrap("give leases back", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return wake.Notify(ctx, tx, topic.Acks)
	})
}

// Sweep forgets replicas whose lease ran out long ago.
func (l *Ledger) Sweep(ctx context.Context) error {
	now, err := pg.Now(ctx, l.Pool)
	if err != nil {
		return err
	}
	_, err = l.Pool.Exec(ctx, `DELETE FROM inference_replica WHERE lease_until < $1`, now.Add(-forgetAfter))
	if err != nil {
		return wrap("forget old replicas", err)
	}
	return nil
}

// forgetAfter is how long a replica without a lease is kept, for people who look.
const forgetAfter = 24 * time.Hour
