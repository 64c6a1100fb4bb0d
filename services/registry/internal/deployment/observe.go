package deployment

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// Observe applies the state of an engine that jobs reports. wanted is false if the work is unknown or not wanted. If
// the revision is the pending one of a deployment, Observe then calls Settle in a second transaction, because the lock
// order is deployment before revision. If the process exits between the two transactions, the next observation of the
// work calls Settle.
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
		if r.Finished() || o.Generation != r.Generation || o.Fence < r.Engine.Fence {
			return nil
		}
		return b.apply(ctx, tx, r, o)
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
	if id.Check(id.Playground, r.DeploymentID) == nil {
		return b.Sessions.Moved(ctx, tx, &before, r)
	}
	if err := b.moved(ctx, tx, &before, r); err != nil {
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
