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

// Promote makes a ready revision the one that answers, by one row. The promoted one again is no change.
func (b *Book) Promote(ctx context.Context, deploymentID string, number int32) (d *Deployment, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if d, err = b.Store.Lock(ctx, tx, deploymentID); err != nil {
			return err
		}
		r, err := b.Revisions.Lock(ctx, tx, d.ID, number)
		if err != nil || d.promoted(r.ID) {
			return err
		}
		if r.State != revision.Ready {
			return notReady(r)
		}
		return b.promote(ctx, tx, d, r)
	})
	return d, err
}

func (b *Book) promote(ctx context.Context, tx pgx.Tx, d *Deployment, r *revision.Revision) error {
	if err := b.Store.Promote(ctx, tx, d, r.ID); err != nil {
		return err
	}
	if err := b.Revisions.MarkPromoted(ctx, tx, r, b.Clock.Now()); err != nil {
		return err
	}
	e := event.Event{Type: "promoted", To: fmt.Sprintf("revision %d", r.Number)}
	if d.PromotedNumber != nil {
		e.From = fmt.Sprintf("revision %d", *d.PromotedNumber)
	}
	d.PreviousID, d.PromotedID, d.PromotedNumber = d.PromotedID, &r.ID, &r.Number
	err := b.record(ctx, tx, "deployment.promote", d.ID, e, map[string]any{"revision": r.Number, "revision_id": r.ID})
	if err != nil {
		return err
	}
	_, err = epoch.Bump(ctx, tx)
	return err
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
		case d.promoted(r.ID):
			return fault.New(fault.Conflict, "revision_promoted", "revision %d is promoted; promote another one before it is stopped", r.Number)
		case r.State == revision.Stopped:
			return fault.New(fault.Conflict, "revision_stopped", "revision %d is stopped already", r.Number)
		}
		return b.stop(ctx, tx, r)
	})
	return r, err
}

func (b *Book) stop(ctx context.Context, tx pgx.Tx, r *revision.Revision) error {
	before := *r
	r.State, r.Wanted, r.Engine = revision.Stopped, false, revision.Engine{Fence: r.Engine.Fence}
	r.Reason = &revision.Reason{Phase: string(revision.Stopped), Code: "stopped", Message: "it was stopped"}
	if err := b.Revisions.Save(ctx, tx, r, before.State); err != nil {
		return err
	}
	if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
		return err
	}
	e := event.Event{Type: "revision_state", From: string(before.State), To: string(r.State), Message: fmt.Sprintf("revision %d", r.Number)}
	return b.record(ctx, tx, "deployment.revision.stop", r.DeploymentID, e, map[string]any{"revision": r.Number})
}
