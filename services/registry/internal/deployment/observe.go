package deployment

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// Observe applies the state of an engine, as reported by the jobs service. The result wanted is false if the work is
// unknown or not wanted. If the revision is the pending one of a deployment, Observe then calls Settle in a second
// transaction, because a deployment must be locked before its revisions. If the process exits between the two
// transactions, the next observation of the work calls Settle.
func (b *Changer) Observe(ctx context.Context, o revision.Observation) (wanted bool, err error) {
	seen := ""
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		r, err := b.Revisions.LockWork(ctx, tx, o.WorkID)
		if fault.Is(err, fault.Absent) {
			wanted = false
			return nil
		}
		if err != nil {
			return err
		}
		wanted, seen = r.Wanted, r.ID
		if o.Generation > r.Generation {
			return b.overtake(ctx, tx, r, o)
		}
		if r.Finished() || o.Generation != r.Generation || o.Fence < r.Engine.Fence {
			return nil
		}
		if err := b.apply(ctx, tx, r, o); err != nil || o.Phase != revision.PhaseGone || !r.Wanted {
			return err
		}
		// The jobs service ended the work because of an order that the registry's database lost when it was restored.
		return b.Orders.Order(ctx, tx, r.ID)
	})
	if err != nil || seen == "" {
		return wanted, err
	}
	waiting, err := b.Store.Pending(ctx, b.Pool, seen)
	if err != nil || waiting == "" {
		return wanted, err
	}
	return wanted, b.Settle(ctx, waiting, seen)
}

func (b *Changer) apply(ctx context.Context, tx pgx.Tx, r *revision.Revision, o revision.Observation) error {
	before := *r
	verdict := revision.Evaluate(r, o)
	r.State, r.Reason = verdict.State, verdict.Reason
	r.Note(o)
	if r.State == revision.Ready && before.State != revision.Ready {
		now := b.Clock.Now()
		r.ReadyAt = &now
	}
	switch {
	case verdict.Again:
		r.Generation++
	case r.State == revision.Failed:
		// Clear the engine, which no longer runs, but keep the reason.
		r.Wanted, r.Engine = false, revision.Engine{Fence: o.Fence}
	}
	if revision.Same(&before, r) {
		return nil
	}
	if err := b.Revisions.Save(ctx, tx, r, before.State); err != nil {
		return err
	}
	if verdict.Again || !r.Wanted {
		if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
			return err
		}
	}
	return b.announce(ctx, tx, &before, r)
}

// overtake orders the engine in a generation above the one that the jobs service has. The jobs service has a higher
// generation than the registry if the registry's database was restored to an earlier state. It would refuse orders with
// the generations of that state.
func (b *Changer) overtake(ctx context.Context, tx pgx.Tx, r *revision.Revision, o revision.Observation) error {
	before := *r
	r.Overtake(o)
	if err := b.Revisions.Save(ctx, tx, r, before.State); err != nil {
		return err
	}
	if err := b.Orders.Order(ctx, tx, r.ID); err != nil || r.Finished() {
		return err
	}
	return b.announce(ctx, tx, &before, r)
}

// announce reports a saved change to the playground session, or to the deployment and the replicas of inference.
func (b *Changer) announce(ctx context.Context, tx pgx.Tx, before, r *revision.Revision) error {
	if id.Check(id.Playground, r.DeploymentID) == nil {
		return b.Sessions.Moved(ctx, tx, before, r)
	}
	if err := b.moved(ctx, tx, before, r); err != nil {
		return err
	}
	d, err := b.Store.Get(ctx, tx, access.ServiceScope(), r.DeploymentID)
	if err != nil {
		return err
	}
	return b.bumpFor(ctx, tx, d, r)
}

// moved writes the event of a state change.
func (b *Changer) moved(ctx context.Context, tx pgx.Tx, before, r *revision.Revision) error {
	if before.State == r.State {
		return nil
	}
	e := stateEvent(before, r)
	if r.Reason != nil {
		e.Reason = r.Reason.Short()
		e.Message += ": " + r.Reason.Text()
	}
	return b.event(ctx, tx, r.DeploymentID, e)
}

// Hung describes an engine that does not respond, as inference reports it.
type Hung struct {
	RevisionID string
	// ReplicaID and Address identify one start of the engine's process.
	ReplicaID, Address string
	// Silent is the time since a call last received a byte from the engine.
	Silent time.Duration
}

// ReplaceEngine orders another engine in place of one that hangs. It returns false and changes nothing if the reported
// engine is no longer the current one, because that engine was replaced, restarted or stopped.
func (b *Changer) ReplaceEngine(ctx context.Context, hung Hung) (replaced bool, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		replaced = false
		r, err := b.Revisions.LockID(ctx, tx, hung.RevisionID)
		if fault.Is(err, fault.Absent) {
			return nil
		}
		if err != nil {
			return err
		}
		if !r.Runs(hung.ReplicaID, hung.Address) {
			return nil
		}
		replaced = true
		before := *r
		r.Replace(fmt.Sprintf("no call got a byte from the engine for %s and two probes failed; it is being replaced", hung.Silent.Round(time.Second)))
		if err := b.Revisions.Save(ctx, tx, r, before.State); err != nil {
			return err
		}
		if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
			return err
		}
		if err := b.moved(ctx, tx, &before, r); err != nil {
			return err
		}
		d, err := b.Store.Get(ctx, tx, access.ServiceScope(), r.DeploymentID)
		if err != nil {
			return err
		}
		return b.bumpFor(ctx, tx, d, r)
	})
	return replaced && err == nil, err
}
