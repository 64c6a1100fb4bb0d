package deployment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// lock is a deployment for a change by a caller, whose If-Match must name what he changes.
func (b *Book) lock(ctx context.Context, tx pgx.Tx, deploymentID string) (*Deployment, error) {
	d, err := b.Store.Lock(ctx, tx, deploymentID)
	if err != nil {
		return nil, err
	}
	return d, request.Match(ctx, d.Version)
}

// Describe changes what is said of a deployment.
func (b *Book) Describe(ctx context.Context, deploymentID, description string) (d *Deployment, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if d, err = b.lock(ctx, tx, deploymentID); err != nil || d.Description == description {
			return err
		}
		d.Description = description
		if err := b.Store.Save(ctx, tx, d); err != nil {
			return err
		}
		return b.record(ctx, tx, "deployment.update", d.ID, event.Event{Type: "updated"}, map[string]any{"description": description})
	})
	return d, err
}

// Suspend refuses calls from the answered epoch on. What is suspended already can still be cut, and is not
// brought back to a drain.
func (b *Book) Suspend(ctx context.Context, deploymentID, mode string) (d *Deployment, from int64, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if d, err = b.lock(ctx, tx, deploymentID); err != nil {
			return err
		}
		if d.State == StateSuspended && (d.Cut() || mode == ModeDrain) {
			// Who suspended it may not have been answered yet: this one waits, too.
			from, err = epoch.Current(ctx, tx)
			return err
		}
		was := d.State
		if was == StateServing {
			now := b.Clock.Now()
			d.SuspendedAt = &now
		}
		d.State, d.SuspendMode = StateSuspended, &mode
		if err := b.Store.Save(ctx, tx, d); err != nil {
			return err
		}
		e := event.Event{Type: "suspended", From: was, To: d.State, Message: mode}
		if err := b.record(ctx, tx, "deployment.suspend", d.ID, e, map[string]any{"mode": mode}); err != nil {
			return err
		}
		from, err = epoch.Bump(ctx, tx)
		return err
	})
	return d, from, err
}

// Resume takes calls again.
func (b *Book) Resume(ctx context.Context, deploymentID string) (d *Deployment, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if d, err = b.lock(ctx, tx, deploymentID); err != nil || d.State == StateServing {
			return err
		}
		e := event.Event{Type: "resumed", From: d.State, To: StateServing}
		d.State, d.SuspendMode, d.SuspendedAt = StateServing, nil, nil
		if err := b.Store.Save(ctx, tx, d); err != nil {
			return err
		}
		if err := b.record(ctx, tx, "deployment.resume", d.ID, e, nil); err != nil {
			return err
		}
		_, err = epoch.Bump(ctx, tx)
		return err
	})
	return d, err
}

// Delete ends a deployment that does not serve: its engines go, its tokens die. It answers the epoch from which
// on inference does not know it.
func (b *Book) Delete(ctx context.Context, deploymentID string) (from int64, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		d, err := b.lock(ctx, tx, deploymentID)
		if err != nil {
			return err
		}
		if d.State == StateServing && d.PromotedID != nil {
			return fault.New(fault.Conflict, "deployment_serving", "deployment %s is serving revision %d; suspend it before it is deleted",
				d.Name, *d.PromotedNumber)
		}
		running, err := b.Revisions.LockWanted(ctx, tx, d.ID)
		if err != nil {
			return err
		}
		for _, r := range running {
			if err := b.end(ctx, tx, r, "its deployment was deleted"); err != nil {
				return err
			}
		}
		if err := b.Store.Delete(ctx, tx, d, b.Clock.Now()); err != nil {
			return err
		}
		err = b.record(ctx, tx, "deployment.delete", d.ID, event.Event{Type: "deleted", From: d.State}, map[string]any{"name": d.Name})
		if err != nil {
			return err
		}
		if from, err = epoch.Bump(ctx, tx); err != nil {
			return err
		}
		return b.Tokens.RevokeAll(ctx, tx, d.ID, b.Clock.Now(), from)
	})
	return from, err
}

// Start asks anew for the engine of a revision that was stopped or has failed.
func (b *Book) Start(ctx context.Context, deploymentID string, number int32) (r *revision.Revision, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		d, err := b.Store.Lock(ctx, tx, deploymentID)
		if err != nil {
			return err
		}
		if r, err = b.Revisions.Lock(ctx, tx, d.ID, number); err != nil {
			return err
		}
		if !r.Over() {
			return fault.New(fault.Conflict, "revision_running", "revision %d is %s already", r.Number, r.State)
		}
		if err := b.start(ctx, tx, r); err != nil {
			return err
		}
		return b.bumpFor(ctx, tx, d, r)
	})
	return r, err
}

// start orders a new engine of a locked revision that has none.
func (b *Book) start(ctx context.Context, tx pgx.Tx, r *revision.Revision) error {
	if err := b.Models.Hold(ctx, tx, r.Source.ModelID, r.Source.Version); err != nil {
		return err
	}
	before := *r
	r.Restart()
	if err := b.Revisions.Save(ctx, tx, r, before.State); err != nil {
		return err
	}
	if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
		return err
	}
	return b.record(ctx, tx, "deployment.revision.start", r.DeploymentID, stateEvent(&before, r), map[string]any{"revision": r.Number})
}

// Stop ends the engines of a revision that is not promoted.
func (b *Book) Stop(ctx context.Context, deploymentID string, number int32) (r *revision.Revision, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		d, err := b.Store.Lock(ctx, tx, deploymentID)
		if err != nil {
			return err
		}
		if r, err = b.Revisions.Lock(ctx, tx, d.ID, number); err != nil {
			return err
		}
		switch {
		case d.promoted(r.ID) && d.State == StateServing:
			return fault.New(fault.Conflict, "revision_promoted", "revision %d is promoted; promote another one or suspend the deployment before it is stopped", r.Number)
		case r.State == revision.Stopped:
			return fault.New(fault.Conflict, "revision_stopped", "revision %d is stopped already", r.Number)
		}
		if err := b.end(ctx, tx, r, "it was stopped"); err != nil {
			return err
		}
		if d.pending(r.ID) {
			if err := b.giveUp(ctx, tx, d, r); err != nil {
				return err
			}
		}
		return b.bumpFor(ctx, tx, d, r)
	})
	return r, err
}

// bumpFor tells inference of a change of a revision, where that is the one that answers.
func (b *Book) bumpFor(ctx context.Context, tx pgx.Tx, d *Deployment, r *revision.Revision) error {
	if !d.promoted(r.ID) {
		return nil
	}
	_, err := epoch.Bump(ctx, tx)
	return err
}

// end has the engines of a locked revision go.
func (b *Book) end(ctx context.Context, tx pgx.Tx, r *revision.Revision, why string) error {
	before := *r
	r.State, r.Wanted, r.Engine = revision.Stopped, false, revision.Engine{Fence: r.Engine.Fence}
	r.Reason = &revision.Reason{Phase: string(revision.Stopped), Code: "stopped", Message: why}
	if err := b.Revisions.Save(ctx, tx, r, before.State); err != nil {
		return err
	}
	if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
		return err
	}
	return b.record(ctx, tx, "deployment.revision.stop", r.DeploymentID, stateEvent(&before, r), map[string]any{"revision": r.Number})
}

func stateEvent(before, r *revision.Revision) event.Event {
	return event.Event{Type: "revision_state", From: string(before.State), To: string(r.State), Message: fmt.Sprintf("revision %d", r.Number)}
}
