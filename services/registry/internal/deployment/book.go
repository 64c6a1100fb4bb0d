package deployment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
	"github.com/signalbox-dev/signalbox/services/registry/internal/token"
)

// Orders tells jobs, after the commit, what a revision wants of its engine.
type Orders interface {
	Order(ctx context.Context, tx pgx.Tx, revisionID string) error
}

// Book changes deployments: each change with its event, and with its order to jobs where it has one.
type Book struct {
	Pool      *pgxpool.Pool
	Store     *Store
	Revisions *revision.Store
	Tokens    token.Store
	Orders    Orders
	Events    *event.Log
	Audit     *audit.Log
	Clock     clock.Clock
}

// Create keeps a new deployment in tx.
func (b *Book) Create(ctx context.Context, tx pgx.Tx, d *Deployment) error {
	if err := b.Store.Insert(ctx, tx, d); err != nil {
		return err
	}
	err := b.record(ctx, tx, "deployment.create", d.ID, event.Event{Type: "created", To: d.State},
		map[string]any{"name": d.Name, "project": d.Project})
	if err != nil {
		return err
	}
	_, err = epoch.Bump(ctx, tx)
	return err
}

// CreateRevision keeps a new candidate in tx and orders its engine.
func (b *Book) CreateRevision(ctx context.Context, tx pgx.Tx, r *revision.Revision) error {
	if err := b.Revisions.Insert(ctx, tx, r); err != nil {
		return err
	}
	if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
		return err
	}
	return b.record(ctx, tx, "deployment.revision.create", r.DeploymentID,
		event.Event{Type: "revision_state", To: string(r.State), Message: fmt.Sprintf("revision %d", r.Number)},
		map[string]any{"revision": r.Number, "serving_digest": r.ServingDigest})
}

func (b *Book) event(ctx context.Context, tx pgx.Tx, deploymentID string, e event.Event) error {
	e.SubjectKind, e.SubjectID = SubjectKind, deploymentID
	_, err := b.Events.Append(ctx, tx, e)
	return err
}

// record writes the event and the audit row of what a person did.
func (b *Book) record(ctx context.Context, tx pgx.Tx, action, deploymentID string, e event.Event, after any) error {
	if err := b.event(ctx, tx, deploymentID, e); err != nil {
		return err
	}
	return b.Audit.Record(ctx, tx, audit.Entry{Action: action, TargetKind: SubjectKind, TargetID: deploymentID, After: after})
}
