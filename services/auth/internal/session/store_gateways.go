package session

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	// callersTopic wakes the streams of gateways. The trigger raise_caller_epoch sends it.
	callersTopic pg.Topic = "callers"
	// acksTopic wakes the calls that wait for gateways.
	acksTopic pg.Topic = "gateway_acks"
)

// currentEpoch returns the epoch of the last committed change.
func currentEpoch(ctx context.Context, q pg.Querier) (epoch int64, err error) {
	if err := q.QueryRow(ctx, `SELECT epoch FROM caller_epoch`).Scan(&epoch); err != nil {
		return 0, fmt.Errorf("read the epoch of callers: %w", err)
	}
	return epoch, nil
}

// behind returns the time until the last lease of the gateways that have not acknowledged the epoch expires. It returns
// 0 if no such gateway has a lease.
func behind(ctx context.Context, q pg.Querier, epoch int64) (time.Duration, error) {
	now, err := pg.Now(ctx, q)
	if err != nil {
		return 0, err
	}
	var until *time.Time
	err = q.QueryRow(ctx, `SELECT max(lease_until) FROM gateway_lease WHERE lease_until > $1 AND acked_epoch < $2`, now, epoch).Scan(&until)
	if err != nil {
		return 0, fmt.Errorf("find gateways that are behind: %w", err)
	}
	if until == nil {
		return 0, nil
	}
	return until.Sub(now), nil
}

// storeGateway stores the epoch that a gateway has applied and, for a renewal, its lease. If the parameter news is
// true, it wakes the calls that wait for gateways.
func storeGateway(ctx context.Context, db pg.Beginner, in *authpeerv1.WatchCallersRequest, news bool) error {
	return pg.InTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		if in.GetRenewal() == 0 {
			_, err := tx.Exec(ctx, `UPDATE gateway_lease SET acked_epoch = greatest(acked_epoch, $2) WHERE gateway_id = $1`,
				in.GetGatewayId(), in.GetAckedEpoch())
			if err != nil {
				return fmt.Errorf("store a gateway's acknowledgement: %w", err)
			}
			return pg.Notify(ctx, tx, acksTopic)
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO gateway_lease AS g (gateway_id, acked_epoch, lease_until) VALUES ($1, $2, $3)
			ON CONFLICT (gateway_id) DO UPDATE SET acked_epoch = greatest(g.acked_epoch, excluded.acked_epoch),
				lease_until = greatest(g.lease_until, excluded.lease_until)`, in.GetGatewayId(), in.GetAckedEpoch(), now.Add(GatewayLease))
		if err != nil {
			return fmt.Errorf("renew a gateway's lease: %w", err)
		}
		if !news {
			return nil
		}
		return pg.Notify(ctx, tx, acksTopic)
	})
}

// forgetGateway deletes a gateway that no longer uses cached callers, and wakes the calls that wait for it.
func forgetGateway(ctx context.Context, db pg.Beginner, gatewayID string) error {
	return pg.InTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM gateway_lease WHERE gateway_id = $1`, gatewayID); err != nil {
			return fmt.Errorf("delete a gateway's lease: %w", err)
		}
		return pg.Notify(ctx, tx, acksTopic)
	})
}

// forgetGateways deletes the gateways whose leases have expired.
func forgetGateways(ctx context.Context, q pg.Querier) error {
	now, err := pg.Now(ctx, q)
	if err != nil {
		return err
	}
	if _, err := q.Exec(ctx, `DELETE FROM gateway_lease WHERE lease_until < $1`, now); err != nil {
		return fmt.Errorf("delete expired leases of gateways: %w", err)
	}
	return nil
}
