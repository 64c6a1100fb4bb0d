package deployment

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
)

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
func (b *Book) CreateRevision(ctx context.Context, tx pgx.Tx, r *Revision) error {
	if err := b.Store.InsertRevision(ctx, tx, r); err != nil {
		return err
	}
	if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
		return err
	}
	return b.record(ctx, tx, "deployment.revision.create", r.DeploymentID,
		event.Event{Type: "revision_state", To: string(r.State), Message: fmt.Sprintf("revision %d", r.Number)},
		map[string]any{"revision": r.Number, "serving_digest": r.ServingDigest})
}

// candidate makes a revision of a deployment that serves a version of a model.
func candidate(ids *id.Source, now time.Time, probe time.Duration, d *Deployment, m *model.Model, v *model.Version, s Serving) (*Revision, error) {
	s = s.Fill()
	if err := s.Check(v); err != nil {
		return nil, err
	}
	object := model.ToObject(v)
	r := &Revision{
		ID: ids.New(id.Revision), DeploymentID: d.ID, State: Pending, Wanted: true, Generation: 1,
		Reason: &Reason{Phase: string(Pending), Code: "waiting", Message: "waits for a node of pool " + s.Pool},
		Source: Source{ModelID: m.ID, Version: v.Number}, Serving: s, WorkID: ids.New(id.Work), CreatedAt: now,
		Plan: Plan{
			Model:       File{Path: object.GetPath(), URI: object.GetUri(), Size: object.GetSizeBytes(), SHA256: object.GetSha256(), Packed: object.GetUnpack()},
			ModelDigest: v.Digest, ServedNames: servedNames(d), Task: m.Task, ProbeS: int32(probe.Seconds()),
			OwnerID: d.UserID, ProjectID: d.ProjectID,
		},
	}
	var err error
	r.ServingDigest, err = digest(r.Source, v.Digest, s)
	return r, err
}
