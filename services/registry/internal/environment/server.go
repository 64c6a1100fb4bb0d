package environment

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/emptypb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

// Queue queues the validation of a version as part of a transaction.
type Queue interface {
	Validate(ctx context.Context, tx pgx.Tx, versionID string) error
}

// Server implements EnvironmentService.
type Server struct {
	registryv1.UnimplementedEnvironmentServiceServer

	Pool     *pgxpool.Pool
	Store    Store
	Projects access.Projects
	Blobs    blob.Store
	Queue    Queue
	Once     *idempotency.Once
	Events   *event.Log
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	// MaxBytes is the size of the largest upload.
	MaxBytes int64
	// HoldFor is how long an uploaded object is kept before a version refers to it.
	HoldFor time.Duration
}

// CreateEnvironment creates an environment without versions.
func (s *Server) CreateEnvironment(ctx context.Context, in *registryv1.CreateEnvironmentRequest) (*registryv1.Environment, error) {
	out := &registryv1.Environment{}
	if done, err := s.Once.Replay(ctx, registryv1.EnvironmentService_CreateEnvironment_FullMethodName, in, out); done || err != nil {
		return out, err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return nil, err
	}
	e := &Environment{Owner: owner, ID: s.IDs.New(id.Environment), Name: in.GetName(), Description: in.GetDescription(), CreatedAt: s.Clock.Now()}
	err = s.Once.Do(ctx, registryv1.EnvironmentService_CreateEnvironment_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Store.Insert(ctx, tx, e); err != nil {
			return err
		}
		idempotency.Set(out, ToProto(e))
		return s.record(ctx, tx, "environment.create", e.ID, event.Event{Type: "created"}, out)
	})
	return out, err
}

// record writes the event and the audit entry of a change.
func (s *Server) record(ctx context.Context, tx pgx.Tx, action, environmentID string, e event.Event, after any) error {
	e.SubjectKind, e.SubjectID = SubjectKind, environmentID
	return db.RecordChange(ctx, tx, s.Events, s.Audit, action, e, after)
}

// ListEnvironments lists the environments visible to the caller, newest first.
func (s *Server) ListEnvironments(ctx context.Context, in *registryv1.ListEnvironmentsRequest) (*registryv1.ListEnvironmentsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, authn.ScopeOf(ctx), access.Filter{Name: in.GetName(), Project: in.GetProject(), Text: in.GetQ()}, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListEnvironmentsResponse{}
	for _, e := range found {
		out.Environments = append(out.Environments, ToProto(e))
	}
	return out, request.SetMore(ctx, more)
}

// GetEnvironment returns one environment.
func (s *Server) GetEnvironment(ctx context.Context, in *registryv1.GetEnvironmentRequest) (*registryv1.Environment, error) {
	e, err := s.get(ctx, in.GetEnvironmentId())
	if err != nil {
		return nil, err
	}
	return ToProto(e), nil
}

// UpdateEnvironment changes the description of an environment.
func (s *Server) UpdateEnvironment(ctx context.Context, in *registryv1.UpdateEnvironmentRequest) (*registryv1.Environment, error) {
	e, err := s.editable(ctx, in.GetEnvironmentId())
	if err != nil || in.Description == nil {
		return respond(e, err)
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if e, err = s.Store.Describe(ctx, tx, e.ID, in.GetDescription()); err != nil {
			return err
		}
		return s.record(ctx, tx, "environment.update", e.ID, event.Event{Type: "updated"}, map[string]any{"description": e.Description})
	})
	return respond(e, err)
}

func respond(e *Environment, err error) (*registryv1.Environment, error) {
	if err != nil {
		return nil, err
	}
	return ToProto(e), nil
}

// DeleteEnvironment removes an environment from the catalog.
func (s *Server) DeleteEnvironment(ctx context.Context, in *registryv1.DeleteEnvironmentRequest) (*emptypb.Empty, error) {
	e, err := s.editable(ctx, in.GetEnvironmentId())
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Store.Delete(ctx, tx, e.ID, s.Clock.Now()); err != nil {
			return err
		}
		return s.record(ctx, tx, "environment.delete", e.ID, event.Event{Type: "deleted"}, map[string]any{"name": e.Name})
	})
}

func (s *Server) get(ctx context.Context, environmentID string) (*Environment, error) {
	if err := request.ID(id.Environment, "environment_id", environmentID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), environmentID)
}

// editable returns an environment, or an error if the caller must not change it.
func (s *Server) editable(ctx context.Context, environmentID string) (*Environment, error) {
	e, err := s.get(ctx, environmentID)
	if err != nil {
		return nil, err
	}
	return e, e.Require(authn.ScopeOf(ctx), SubjectKind, e.ID)
}
