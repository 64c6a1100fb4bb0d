// Package epoch orders all changes that inference serves by, and knows which replicas have them in force.
// A change raises the epoch in its own transaction; the lock on the one row makes epochs rise in the order
// of the commits. A replica may serve only under a lease, counted by Postgres' clock, so that a change is
// in force everywhere once every live lease has acknowledged it, has run out or was given back. Nothing
// shorter is safe for a replica that went silent: it may be cut off, or frozen, and serve when it is back.
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
	"github.com/signalbox-dev/signalbox/platform/wake"
	"github.com/signalbox-dev/signalbox/services/registry/internal/topic"
)

// Ledger keeps replicas and their leases.
type Ledger struct {
	Pool  *pgxpool.Pool
	Hub   *wake.Hub
	Clock clock.Clock
	Lease time.Duration
}

const (
	// lookAgain is how long a wait trusts wake-ups alone.
	lookAgain = time.Second
	// answerAhead is how long before its caller's deadline a wait gives its own answer.
	answerAhead = 500 * time.Millisecond
)

// Replica is one that has not acknowledged yet.
type Replica struct {
	ID    string
	Until time.Time
}

// Await answers once every replica with a live lease has the epoch in force. A replica that cannot be
// reached is waited for until its lease has run out, or until the caller's deadline: then it is 502.
func (l *Ledger) Await(ctx context.Context, epoch int64) error {
	changed := l.Hub.Wait(topic.Acks)
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

// settleTime bounds how long a grant waits to be known everywhere.
const settleTime = 2 * time.Second

// Settle waits, but not for long, until the replicas know of what was granted by now, so that a token or a
// promotion can be used when its maker is answered. Unlike a revocation it is no promise: a replica that
// cannot be reached learns of it later.
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

// ahead ends a little before ctx does, so that there is time to say why.
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
		"the change is stored, but %d replica(s) of inference have not confirmed it; it is in force everywhere at %s at the latest; repeat the request to wait again",
		len(behind), last.UTC().Format("2006-01-02T15:04:05.000000-07:00"))
}

// drift is the part of a lease by which the clocks of a replica and of Postgres may run apart: NTP slews a
// clock by no more than 500 ppm, and either may be slewed.
const drift = 1000

// Granted is what a replica was told about itself.
type Granted struct {
	// Epoch is the present one, read after the lease was stored.
	Epoch int64
	// Lease is a little shorter than what is waited for, so that a replica whose clock runs slow has
	// stopped serving by then.
	Lease time.Duration
}

// Renew stores what a replica has in force and lets its lease run anew. Whoever stores a change after this
// sees the lease; whoever stored it before is part of the epoch that this answers.
func (l *Ledger) Renew(ctx context.Context, replicaID string, acked int64) (Granted, error) {
	if err := l.touch(ctx, replicaID, acked, true); err != nil {
		return Granted{}, err
	}
	now, err := Current(ctx, l.Pool)
	return Granted{Epoch: now, Lease: l.Lease - l.Lease/drift}, err
}

// Ack stores what a replica has in force.
func (l *Ledger) Ack(ctx context.Context, replicaID string, acked int64) error {
	return l.touch(ctx, replicaID, acked, false)
}

// noLease is the answer to an acknowledgement of a replica that never had a lease.
func noLease() error {
	return fault.New(fault.Refused, "replica", "a replica acknowledges only after it has asked for a lease")
}

// CodeReleased is the code of what is refused to a replica whose lease was given back.
const CodeReleased = "replica_released"

// errReleased tells a replica that nobody waits for it any more: it must not serve under that id.
func errReleased() error {
	return fault.New(fault.Refused, CodeReleased, "the lease of this replica was given back; it must stop serving and come back under another id")
}

func noRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

func wrap(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }
