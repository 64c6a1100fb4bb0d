package deployment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// Promote makes a ready revision the serving one by changing one row. If the revision is already promoted, nothing
// changes. A revision that is not ready is a conflict, even if it is the promoted one.
func (b *Changer) Promote(ctx context.Context, deploymentID string, number int32) (d *Deployment, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if d, err = b.lock(ctx, tx, deploymentID); err != nil {
			return err
		}
		r, err := b.Revisions.Lock(ctx, tx, d.ID, number)
		switch {
		case err != nil:
			return err
		case r.State != revision.Ready:
			return notReady(r)
		case d.promoted(r.ID):
			return nil
		}
		return b.promote(ctx, tx, "deployment.promote", d, r)
	})
	return d, err
}

func (b *Changer) promote(ctx context.Context, tx pgx.Tx, action string, d *Deployment, r *revision.Revision) error {
	former := append([]string{}, d.historyAfter(r.ID, action == actionRollback)...)
	if err := b.Store.Promote(ctx, tx, d, r.ID, former); err != nil {
		return err
	}
	if err := b.Revisions.MarkPromoted(ctx, tx, r, b.Clock.Now()); err != nil {
		return err
	}
	e := event.Event{Type: "promoted", To: fmt.Sprintf("revision %d", r.Number)}
	if d.PromotedNumber != nil {
		e.From = fmt.Sprintf("revision %d", *d.PromotedNumber)
	}
	d.PreviousID, d.FormerIDs, d.PromotedID, d.PromotedNumber = last(former), former, &r.ID, &r.Number
	d.PromotedState, d.PromotedReason = &r.State, r.Reason
	d.PendingID, d.PendingNumber = nil, nil
	d.Version++
	err := b.record(ctx, tx, action, d.ID, e, map[string]any{"revision": r.Number, "revision_id": r.ID})
	if err != nil {
		return err
	}
	_, err = epoch.Bump(ctx, tx, epoch.ChangedDeployments(d.ID))
	return err
}

// actionRollback is the audit action of promoting an earlier revision again.
const actionRollback = "deployment.rollback"

// Rollback promotes a revision that was promoted before; a nil number means the previous one. The next rollback then
// goes further back, never forward again. If the revision is not ready, Rollback fails unless start is set. With start,
// the revision is promoted as soon as it is ready, and until then the current one keeps serving.
func (b *Changer) Rollback(ctx context.Context, deploymentID string, number *int32, start bool) (d *Deployment, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if d, err = b.lock(ctx, tx, deploymentID); err != nil {
			return err
		}
		r, err := b.former(ctx, tx, d, number)
		switch {
		case err != nil || d.promoted(r.ID):
			return err
		case r.State == revision.Ready:
			return b.promote(ctx, tx, actionRollback, d, r)
		case !start:
			return notReady(r)
		}
		return b.await(ctx, tx, d, r)
	})
	return d, err
}

// former locks and returns the target revision of a rollback.
func (b *Changer) former(ctx context.Context, tx pgx.Tx, d *Deployment, number *int32) (*revision.Revision, error) {
	if number == nil {
		if d.PreviousID == nil {
			return nil, fault.New(fault.Conflict, "no_previous_revision", "the deployment has no previous revision; promote one by its number")
		}
		return b.Revisions.LockID(ctx, tx, *d.PreviousID)
	}
	r, err := b.Revisions.Lock(ctx, tx, d.ID, *number)
	if err == nil && len(r.PromotedAt) == 0 {
		return nil, fault.New(fault.Conflict, "never_promoted", "revision %d was never promoted; promote it instead", r.Number)
	}
	return r, err
}

// await makes a revision the pending one, and starts it if it is not running.
func (b *Changer) await(ctx context.Context, tx pgx.Tx, d *Deployment, r *revision.Revision) error {
	if d.pending(r.ID) {
		return nil
	}
	if r.Finished() {
		if err := b.start(ctx, tx, r); err != nil {
			return err
		}
	}
	d.PendingID, d.PendingNumber = &r.ID, &r.Number
	if err := b.Store.Save(ctx, tx, d); err != nil {
		return err
	}
	e := event.Event{Type: "rollback_waits", To: fmt.Sprintf("revision %d", r.Number), Message: "the revision is promoted when it is ready"}
	return b.record(ctx, tx, "deployment.rollback.start", d.ID, e, map[string]any{"revision": r.Number, "revision_id": r.ID})
}

// Settle ends the wait for a pending revision: it promotes the revision if it is ready, and cancels the rollback if the
// revision was stopped or has failed.
func (b *Changer) Settle(ctx context.Context, deploymentID, revisionID string) error {
	return pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		d, err := b.Store.Lock(ctx, tx, deploymentID)
		if err != nil || !d.pending(revisionID) {
			return err
		}
		r, err := b.Revisions.LockID(ctx, tx, revisionID)
		switch {
		case err != nil:
			return err
		case r.State == revision.Ready:
			return b.promote(ctx, tx, actionRollback, d, r)
		case r.Finished():
			return b.giveUp(ctx, tx, d, r)
		}
		return nil
	})
}

func (b *Changer) giveUp(ctx context.Context, tx pgx.Tx, d *Deployment, r *revision.Revision) error {
	d.PendingID, d.PendingNumber = nil, nil
	if err := b.Store.Save(ctx, tx, d); err != nil {
		return err
	}
	e := event.Event{Type: "rollback_failed", To: fmt.Sprintf("revision %d", r.Number)}
	if r.Reason != nil {
		e.Reason, e.Message = r.Reason.Short(), r.Reason.Text()
	}
	return b.event(ctx, tx, d.ID, e)
}
