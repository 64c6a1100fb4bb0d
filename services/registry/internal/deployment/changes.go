package deployment

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// Orders queues orders to the jobs service. Order adds an order to the transaction tx. The order is sent after the
// commit and makes the jobs service start or end the revision's engine.
type Orders interface {
	Order(ctx context.Context, tx pgx.Tx, revisionID string) error
}

// RevisionObserver is informed of every change of a revision that belongs to a playground session instead of a
// deployment.
type RevisionObserver interface {
	Moved(ctx context.Context, tx pgx.Tx, before, after *revision.Revision) error
}

// Changer changes deployments. It writes each change in one transaction with its event. If the change affects the
// engine, the transaction also contains the order to the jobs service.
type Changer struct {
	Pool      *pgxpool.Pool
	Store     *Store
	Revisions *revision.Store
	Tokens    deploytoken.Store
	Models    model.Store
	Orders    Orders
	// Sessions is informed of the changes of playground revisions.
	Sessions RevisionObserver
	Events   *event.Log
	Audit    *audit.Log
	Clock    clock.Clock
}

// Create inserts a new deployment in the transaction tx.
func (b *Changer) Create(ctx context.Context, tx pgx.Tx, d *Deployment) error {
	if err := b.Store.Insert(ctx, tx, d); err != nil {
		return err
	}
	err := b.record(ctx, tx, "deployment.create", d.ID, event.Event{Type: "created", To: d.State},
		map[string]any{"name": d.Name, "project": d.Project})
	if err != nil {
		return err
	}
	_, err = epoch.Bump(ctx, tx, epoch.ChangedDeployments(d.ID))
	return err
}

// CreateRevision inserts a new revision in the transaction tx and queues the order for its engine. From then on, the
// revision's model version cannot be archived.
func (b *Changer) CreateRevision(ctx context.Context, tx pgx.Tx, r *revision.Revision) error {
	if err := b.Models.Hold(ctx, tx, r.Source.ModelID, r.Source.Version); err != nil {
		return err
	}
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

func (b *Changer) event(ctx context.Context, tx pgx.Tx, deploymentID string, e event.Event) error {
	e.SubjectKind, e.SubjectID = SubjectKind, deploymentID
	_, err := b.Events.Append(ctx, tx, e)
	return err
}

// record writes the event and the audit row of a user's action.
func (b *Changer) record(ctx context.Context, tx pgx.Tx, action, deploymentID string, e event.Event, after any) error {
	e.SubjectKind, e.SubjectID = SubjectKind, deploymentID
	return db.RecordChange(ctx, tx, b.Events, b.Audit, action, e, after)
}

// prefixLength is the length of the token prefix that is shown to identify a token.
const prefixLength = 8

// Mint creates a token of a deployment in the transaction tx. Only the hash of the token is stored.
func (b *Changer) Mint(ctx context.Context, tx pgx.Tx, ids *id.Source, random io.Reader, deploymentID, name string) (*deploytoken.Token, secret.String, error) {
	text, err := secret.Mint(random, secret.KindDeployment)
	if err != nil {
		return nil, secret.String{}, fmt.Errorf("mint a deployment token: %w", err)
	}
	t := &deploytoken.Token{
		ID: ids.New(id.TokenRow), DeploymentID: deploymentID, Name: name, Prefix: text.Reveal()[:prefixLength],
		Hash: secret.Hash(text.Reveal()), CreatedAt: b.Clock.Now(),
	}
	if err := b.Tokens.Insert(ctx, tx, t); err != nil {
		return nil, secret.String{}, err
	}
	err = b.record(ctx, tx, "deployment.token.create", deploymentID, event.Event{Type: "token_created", Message: name},
		map[string]any{"token_id": t.ID, "name": name})
	if err != nil {
		return nil, secret.String{}, err
	}
	_, err = epoch.Bump(ctx, tx, epoch.ChangedTokens(t.ID))
	return t, text, err
}

// Revoke revokes a token and returns the epoch from which it is revoked. A repeated call returns the same epoch.
func (b *Changer) Revoke(ctx context.Context, deploymentID, tokenID string) (from int64, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		t, err := b.Tokens.Lock(ctx, tx, deploymentID, tokenID)
		if err != nil {
			return err
		}
		if t.RevokedEpoch != nil {
			from = *t.RevokedEpoch
			return nil
		}
		err = b.record(ctx, tx, "deployment.token.revoke", deploymentID, event.Event{Type: "token_revoked", Message: t.Name},
			map[string]any{"token_id": t.ID, "name": t.Name})
		if err != nil {
			return err
		}
		if from, err = epoch.Bump(ctx, tx, epoch.ChangedTokens(t.ID)); err != nil {
			return err
		}
		return b.Tokens.Revoke(ctx, tx, t.ID, b.Clock.Now(), from)
	})
	return from, err
}
