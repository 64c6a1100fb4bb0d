package epoch

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

// Bump increments the epoch, stores what has changed and wakes the watchers. It must be the last step of the
// transaction that makes the change.
func Bump(ctx context.Context, tx pgx.Tx, c Changes) (int64, error) {
	var epoch int64
	if err := tx.QueryRow(ctx, `UPDATE snapshot_epoch SET epoch = epoch + 1 RETURNING epoch`).Scan(&epoch); err != nil {
		return 0, wrap("increment the snapshot epoch", err)
	}
	if err := c.store(ctx, tx, epoch); err != nil {
		return 0, err
	}
	return epoch, pg.Notify(ctx, tx, db.SnapshotTopic)
}

// Current returns the epoch of the last committed change.
func Current(ctx context.Context, q pg.Querier) (int64, error) {
	var epoch int64
	if err := q.QueryRow(ctx, `SELECT epoch FROM snapshot_epoch`).Scan(&epoch); err != nil {
		return 0, wrap("read the snapshot epoch", err)
	}
	return epoch, nil
}

// Behind returns the replicas with a valid lease that have not acknowledged the epoch, and the current time of
// Postgres's clock, by which the leases are measured.
func (l *Ledger) Behind(ctx context.Context, epoch int64) ([]Replica, time.Time, error) {
	now, err := pg.Now(ctx, l.Pool)
	if err != nil {
		return nil, now, err
	}
	rows, err := l.Pool.Query(ctx, `SELECT replica_id, lease_until FROM inference_replica
		WHERE lease_until > $1 AND acked_epoch < $2 AND released_at IS NULL ORDER BY lease_until, replica_id`, now, epoch)
	if err != nil {
		return nil, now, wrap("find replicas that are behind", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Replica, err error) {
		return r, row.Scan(&r.ID, &r.Until)
	})
	if err != nil {
		return nil, now, wrap("find replicas that are behind", err)
	}
	return found, now, nil
}

// touch stores an acknowledgement and, if renew is set, renews the lease. If the acknowledged epoch is newer than the
// stored one, touch wakes the calls that wait for that epoch.
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
			return wrap("find a replica", err)
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
		return pg.Notify(ctx, tx, db.AcksTopic)
	})
}

// grant renews a lease unless it was released. The condition in its statement also detects a release that is stored
// after touch has found no row.
func (l *Ledger) grant(ctx context.Context, tx pgx.Tx, replicaID string, acked int64) error {
	// Read the clock after waiting for the row lock, never before.
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

// Release releases the leases of replicas that no longer serve, so that changes stop waiting for these replicas. A
// replica without a row gets one, so that a renewal that is still in flight is refused.
func (l *Ledger) Release(ctx context.Context, replicaIDs []string) error {
	return pg.InTx(ctx, l.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		// The fixed order prevents deadlocks between calls that release the same replicas.
		tag, err := tx.Exec(ctx, `INSERT INTO inference_replica AS r (replica_id, acked_epoch, lease_until, released_at)
			SELECT DISTINCT id, 0, $2::timestamptz, $2::timestamptz FROM unnest($1::text[]) AS id ORDER BY id
			ON CONFLICT (replica_id) DO UPDATE SET released_at = excluded.released_at WHERE r.released_at IS NULL`, replicaIDs, now)
		if err != nil {
			return wrap("release leases", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return pg.Notify(ctx, tx, db.AcksTopic)
	})
}

// Sweep deletes replicas whose lease expired more than forgetAfter ago, and the changes of old epochs.
func (l *Ledger) Sweep(ctx context.Context) error {
	now, err := pg.Now(ctx, l.Pool)
	if err != nil {
		return err
	}
	_, err = l.Pool.Exec(ctx, `DELETE FROM inference_replica WHERE lease_until < $1`, now.Add(-forgetAfter))
	if err != nil {
		return wrap("delete old replicas", err)
	}
	return l.sweepChanges(ctx)
}

// forgetAfter is how long a replica without a lease is kept, for diagnosis.
const forgetAfter = 24 * time.Hour
