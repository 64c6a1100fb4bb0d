package model

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/modelcard"
)

// Server implements ModelService.
type Server struct {
	registryv1.UnimplementedModelServiceServer

	Pool      *pgxpool.Pool
	Store     Store
	Cards     modelcard.Store
	Jobs      Jobs
	Projects  access.Projects
	Artifacts Artifacts
	Blobs     blob.Store
	Once      *idempotency.Once
	Events    *event.Log
	Audit     *audit.Log
	Clock     clock.Clock
	IDs       *id.Source
	// MaxBytes is the maximum size of an uploaded file, and HoldFor how long it is kept before a version refers to it.
	MaxBytes int64
	HoldFor  time.Duration
}

// CreateModel creates a model without versions.
func (s *Server) CreateModel(ctx context.Context, in *registryv1.CreateModelRequest) (*registryv1.Model, error) {
	out := &registryv1.Model{}
	if done, err := s.Once.Replay(ctx, registryv1.ModelService_CreateModel_FullMethodName, in, out); done || err != nil {
		return out, err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return nil, err
	}
	m := &Model{
		Owner: owner, ID: s.IDs.New(id.Model), Name: in.GetName(), Description: in.GetDescription(), Task: in.GetTask(),
		CreatedAt: s.Clock.Now(),
	}
	if m.Task == "" {
		m.Task = DefaultTask
	}
	err = s.Once.Do(ctx, registryv1.ModelService_CreateModel_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Store.Insert(ctx, tx, m); err != nil {
			return err
		}
		idempotency.Set(out, ToProto(m))
		return s.record(ctx, tx, "model.create", m.ID, event.Event{Type: "created"}, out)
	})
	return out, err
}

// record writes the event and the audit row of a change.
func (s *Server) record(ctx context.Context, tx pgx.Tx, action, modelID string, e event.Event, after any) error {
	e.SubjectKind, e.SubjectID = SubjectKind, modelID
	return db.RecordChange(ctx, tx, s.Events, s.Audit, action, e, after)
}

func (s *Server) audit(ctx context.Context, tx pgx.Tx, action, modelID string, after any) error {
	return s.Audit.Record(ctx, tx, audit.Entry{Action: action, TargetKind: SubjectKind, TargetID: modelID, After: after})
}

// ListModels returns the models that are visible to the caller, newest first.
func (s *Server) ListModels(ctx context.Context, in *registryv1.ListModelsRequest) (*registryv1.ListModelsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, authn.ScopeOf(ctx), access.Filter{Name: in.GetName(), Project: in.GetProject(), Text: in.GetQ()}, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListModelsResponse{}
	for _, m := range found {
		out.Models = append(out.Models, ToProto(m))
	}
	return out, request.SetMore(ctx, more)
}

// GetModel returns one model.
func (s *Server) GetModel(ctx context.Context, in *registryv1.GetModelRequest) (*registryv1.Model, error) {
	m, err := s.get(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	return s.withETag(ctx, m)
}

func (s *Server) get(ctx context.Context, modelID string) (*Model, error) {
	if err := request.ID(id.Model, "model_id", modelID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), modelID)
}
