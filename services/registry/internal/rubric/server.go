package rubric

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

// Server implements RubricService.
type Server struct {
	registryv1.UnimplementedRubricServiceServer

	Pool     *pgxpool.Pool
	Store    Store
	Projects access.Projects
	Once     *idempotency.Once
	Events   *event.Log
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
}

// CreateRubric creates a rubric without versions.
func (s *Server) CreateRubric(ctx context.Context, in *registryv1.CreateRubricRequest) (*registryv1.Rubric, error) {
	out := &registryv1.Rubric{}
	if done, err := s.Once.Replay(ctx, registryv1.RubricService_CreateRubric_FullMethodName, in, out); done || err != nil {
		return out, err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return nil, err
	}
	r := &Rubric{Owner: owner, ID: s.IDs.New(id.Rubric), Name: in.GetName(), Description: in.GetDescription(), CreatedAt: s.Clock.Now()}
	err = s.Once.Do(ctx, registryv1.RubricService_CreateRubric_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Store.Insert(ctx, tx, r); err != nil {
			return err
		}
		idempotency.Set(out, ToProto(r))
		return s.record(ctx, tx, "rubric.create", r.ID, event.Event{Type: "created"}, out)
	})
	return out, err
}

// record writes the event and the audit entry of a change.
func (s *Server) record(ctx context.Context, tx pgx.Tx, action, rubricID string, e event.Event, after any) error {
	e.SubjectKind, e.SubjectID = SubjectKind, rubricID
	return db.RecordChange(ctx, tx, s.Events, s.Audit, action, e, after)
}

// ListRubrics lists the rubrics visible to the caller, newest first.
func (s *Server) ListRubrics(ctx context.Context, in *registryv1.ListRubricsRequest) (*registryv1.ListRubricsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, authn.ScopeOf(ctx), access.Filter{Name: in.GetName(), Project: in.GetProject(), Text: in.GetQ()}, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListRubricsResponse{}
	for _, r := range found {
		out.Rubrics = append(out.Rubrics, ToProto(r))
	}
	return out, request.SetMore(ctx, more)
}

// GetRubric returns one rubric.
func (s *Server) GetRubric(ctx context.Context, in *registryv1.GetRubricRequest) (*registryv1.Rubric, error) {
	r, err := s.get(ctx, in.GetRubricId())
	if err != nil {
		return nil, err
	}
	return ToProto(r), nil
}

func (s *Server) get(ctx context.Context, rubricID string) (*Rubric, error) {
	if err := request.ID(id.Rubric, "rubric_id", rubricID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), rubricID)
}

// editable returns a rubric, or an error if the caller must not change it.
func (s *Server) editable(ctx context.Context, rubricID string) (*Rubric, error) {
	r, err := s.get(ctx, rubricID)
	if err != nil {
		return nil, err
	}
	return r, r.Require(authn.ScopeOf(ctx), SubjectKind, r.ID)
}
