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

// lock locks a deployment for a change. It returns an error if the request's If-Match header states another version.
func (b *Changer) lock(ctx context.Context, tx pgx.Tx, deploymentID string) (*Deployment, error) {
	d, err := b.Store.Lock(ctx, tx, deploymentID)
	if err != nil {
		return nil, err
	}
	return d, request.CheckIfMatch(ctx, d.Version)
}

// Describe changes the description of a deployment.
func (b *Changer) Describe(ctx context.Context, deploymentID, description string) (d *Deployment, err error) {
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

// Suspend suspends a deployment. From the returned epoch on, inference rejects calls of the deployment. The mode of a
// suspension can change from ModeDrain to ModeCut, but not back.
func (b *Changer) Suspend(ctx context.Context, deploymentID, mode string) (d *Deployment, from int64, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if d, err = b.lock(ctx, tx, deploymentID); err != nil {
			return err
		}
		if d.State == StateSuspended && (d.Cut() || mode == ModeDrain) {
			// The earlier call that suspended the deployment may still be waiting for replicas, so this call waits as
			// well.
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
		from, err = epoch.Bump(ctx, tx, epoch.ChangedDeployments(d.ID))
		return err
	})
	return d, from, err
}

// Resume makes a suspended deployment accept calls again.
func (b *Changer) Resume(ctx context.Context, deploymentID string) (d *Deployment, err error) {
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
		_, err = epoch.Bump(ctx, tx, epoch.ChangedDeployments(d.ID))
		return err
	})
	return d, err
}

// Delete deletes a deployment that is suspended or has no promoted revision. It ends the engines and revokes the
// tokens. From the returned epoch on, inference does not know the deployment.
func (b *Changer) Delete(ctx context.Context, deploymentID string) (from int64, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		d, err := b.lock(ctx, tx, deploymentID)
		if err != nil {
			return err
		}
		if d.State == StateServing && d.PromotedID != nil {
			return fault.New(fault.Conflict, "deployment_serving", "deployment %s is serving revision %d; suspend it before you delete it",
				d.Name, *d.PromotedNumber)
		}
		running, err := b.Revisions.LockWanted(ctx, tx, d.ID)
		if err != nil {
			return err
		}
		for _, r := range running {
			if err := b.end(ctx, tx, r, "the deployment was deleted"); err != nil {
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
		tokens, err := b.Tokens.LockLive(ctx, tx, d.ID)
		if err != nil {
			return err
		}
		if from, err = epoch.Bump(ctx, tx, epoch.Changes{Deployments: []string{d.ID}, Tokens: tokens}); err != nil {
			return err
		}
		return b.Tokens.RevokeAll(ctx, tx, d.ID, b.Clock.Now(), from)
	})
	return from, err
}

// Start orders a new engine for a revision that was stopped or has failed.
func (b *Changer) Start(ctx context.Context, deploymentID string, number int32) (r *revision.Revision, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		d, err := b.Store.Lock(ctx, tx, deploymentID)
		if err != nil {
			return err
		}
		if r, err = b.Revisions.Lock(ctx, tx, d.ID, number); err != nil {
			return err
		}
		if !r.Finished() {
			return fault.New(fault.Conflict, "revision_running", "revision %d is already %s", r.Number, r.State)
		}
		if err := b.start(ctx, tx, r); err != nil {
			return err
		}
		return b.bumpFor(ctx, tx, d, r)
	})
	return r, err
}

// start orders a new engine for a locked revision that was stopped or has failed.
func (b *Changer) start(ctx context.Context, tx pgx.Tx, r *revision.Revision) error {
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

// Stop ends the engine of a revision that serves no calls.
func (b *Changer) Stop(ctx context.Context, deploymentID string, number int32) (r *revision.Revision, err error) {
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
			return fault.New(fault.Conflict, "revision_promoted",
				"revision %d is promoted; promote another one or suspend the deployment before you stop this revision", r.Number)
		case r.State == revision.Stopped:
			return fault.New(fault.Conflict, "revision_stopped", "revision %d is already stopped", r.Number)
		}
		if err := b.end(ctx, tx, r, "the revision was stopped"); err != nil {
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

// bumpFor raises the epoch if the changed revision is the promoted one.
func (b *Changer) bumpFor(ctx context.Context, tx pgx.Tx, d *Deployment, r *revision.Revision) error {
	if !d.promoted(r.ID) {
		return nil
	}
	_, err := epoch.Bump(ctx, tx, epoch.ChangedDeployments(d.ID))
	return err
}

// end stops a locked revision and releases its engine.
func (b *Changer) end(ctx context.Context, tx pgx.Tx, r *revision.Revision, why string) error {
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
