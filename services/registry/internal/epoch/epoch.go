// Package epoch orders all changes to the data that inference serves from, and tracks which inference replicas have
// applied them.
//
// A change increments the epoch in its own transaction. The lock on the single row makes epochs increase in commit
// order. A replica may serve only while it holds a lease, measured by Postgres's clock. A change is therefore in force
// everywhere once each replica has acknowledged it or no longer has a lease. A shorter wait is not safe: a replica that
// does not respond may only be disconnected or paused, and may serve again later.
package epoch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

// Ledger stores the replicas and their leases.
type Ledger struct {
	Pool  *pgxpool.Pool
	Hub   *pg.NotifyHub
	Clock clock.Clock
	Lease time.Duration
}

const (
	// lookAgain is how often a wait polls the database, in case a wake-up was lost.
	lookAgain = time.Second
	// answerAhead is the time by which Await returns its own error before the deadline of the caller.
	answerAhead = 500 * time.Millisecond
)

// Replica is a replica that has not acknowledged an epoch yet.
type Replica struct {
	ID    string
	Until time.Time
}

// Await returns when every replica with a valid lease has acknowledged the epoch. It waits for an unreachable replica
// until the lease of that replica expires. If ctx ends, or its deadline is near, Await returns a fault.Dependency error
// (502).
func (l *Ledger) Await(ctx context.Context, epoch int64) error {
	changed := l.Hub.Wait(db.AcksTopic)
	defer changed.Close()
	waiting, stop := ahead(ctx)
	defer stop()
	var last []Replica
	for {
		behind, now, err := l.Behind(ctx, epoch)
		if err != nil {
			if last != nil && ctx.Err() != nil {
				return unreached(last)
			}
			return err
		}
		if len(behind) == 0 {
			return nil
		}
		last = behind
		timer := l.Clock.NewTimer(min(lookAgain, max(time.Millisecond, soonest(behind).Sub(now))))
		select {
		case <-waiting.Done():
			timer.Stop()
			return unreached(behind)
		case <-changed.C:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// settleTime is the maximum time for which Settle waits.
const settleTime = 2 * time.Second

// Settle waits briefly until the replicas have acknowledged the current epoch. A new token or a promotion is then
// usable when the call that made it returns. Unlike Await, Settle guarantees nothing: it gives up after settleTime, and
// an unreachable replica learns of the change later.
func (l *Ledger) Settle(ctx context.Context) error {
	now, err := Current(ctx, l.Pool)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := l.Await(ctx, now); err != nil && !fault.Is(err, fault.Dependency) && ctx.Err() == nil {
		return err
	}
	return nil
}

// ahead returns a context that ends answerAhead before the deadline of ctx, which leaves time to return an error that
// explains the failure.
func ahead(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-answerAhead))
}

func soonest(replicas []Replica) time.Time {
	first := replicas[0].Until
	for _, r := range replicas[1:] {
		if r.Until.Before(first) {
			first = r.Until
		}
	}
	return first
}

func unreached(behind []Replica) error {
	last := behind[0].Until
	for _, r := range behind[1:] {
		if r.Until.After(last) {
			last = r.Until
		}
	}
	return fault.New(fault.Dependency, "replica_unreached",
		"the change is stored, but %d replica(s) of inference have not confirmed it; it takes effect everywhere at %s at the latest; repeat the request to wait again",
		len(behind), last.UTC().Format("2006-01-02T15:04:05.000000-07:00"))
}

// drift bounds how far the clocks of a replica and of Postgres may diverge during a lease: by 1/drift of the lease. NTP
// slews a clock by at most 500 ppm, and the two clocks may be slewed in opposite directions.
const drift = 1000

// Granted is the result of a renewal.
type Granted struct {
	// Epoch is the current epoch, read after the lease was stored.
	Epoch int64
	// Lease is slightly shorter than the stored lease, so that a replica with a slow clock stops serving before the
	// stored lease expires.
	Lease time.Duration
}

// Renew stores the epoch that a replica has applied and renews its lease. Later changes wait for the lease; earlier
// changes are part of the returned epoch.
func (l *Ledger) Renew(ctx context.Context, replicaID string, acked int64) (Granted, error) {
	if err := l.touch(ctx, replicaID, acked, true); err != nil {
		return Granted{}, err
	}
	now, err := Current(ctx, l.Pool)
	return Granted{Epoch: now, Lease: l.Lease - l.Lease/drift}, err
}

// Ack stores the epoch that a replica has applied.
func (l *Ledger) Ack(ctx context.Context, replicaID string, acked int64) error {
	return l.touch(ctx, replicaID, acked, false)
}

// noLease returns the error for an acknowledgement from a replica that never had a lease.
func noLease() error {
	return fault.New(fault.Refused, "replica", "the replica has no lease; renew one before acknowledging an epoch")
}

// CodeReleased is the error code for a replica whose lease was released.
const CodeReleased = "replica_released"

// errReleased returns the error for a replica whose lease was released. Changes no longer wait for that replica, so it
// must not serve under its old id.
func errReleased() error {
	return fault.New(fault.Refused, CodeReleased, "the lease of this replica was released; stop serving and register under another id")
}

func noRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

func wrap(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }
