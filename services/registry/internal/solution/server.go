package solution

import (
	"context"
	"net/http"

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

// Deps holds the dependencies shared by Server and Applications.
type Deps struct {
	Pool     *pgxpool.Pool
	Store    Store
	Projects access.Projects
	Once     *idempotency.Once
	Events   *event.Log
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
}

// Server implements SolutionService.
type Server struct {
	registryv1.UnimplementedSolutionServiceServer
	*Deps
}

// CreateSolution stores a manifest with the name and the version that it states. If the same solution exists,
// CreateSolution returns the existing one.
func (s *Server) CreateSolution(ctx context.Context, in *registryv1.CreateSolutionRequest) (*registryv1.Solution, error) {
	m, err := Read(in.GetManifest(), "manifest")
	if err != nil {
		return nil, err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return nil, err
	}
	wanted := s.solution(owner, m)
	out := &registryv1.Solution{}
	err = s.Once.Do(ctx, registryv1.SolutionService_CreateSolution_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		kept, fresh, err := s.keep(ctx, tx, wanted)
		if err != nil {
			return err
		}
		idempotency.Set(out, ToProto(kept))
		if !fresh {
			idempotency.MarkExisting(out)
		}
		return nil
	})
	if err == nil && idempotency.TakeExistingMark(out) {
		err = request.SetStatus(ctx, http.StatusOK)
	}
	return out, err
}

func (d *Deps) solution(owner access.Owner, m *Manifest) *Solution {
	return &Solution{
		Owner: owner, ID: d.IDs.New(id.Solution), Name: m.Name, Version: m.Version, Digest: m.Digest, Manifest: m.Raw, CreatedAt: d.Clock.Now(),
	}
}

// keep stores a solution unless the project already has it.
func (d *Deps) keep(ctx context.Context, tx pgx.Tx, s *Solution) (kept *Solution, fresh bool, err error) {
	kept, fresh, err = d.Store.Put(ctx, tx, s)
	if err != nil || !fresh {
		return kept, false, err
	}
	return kept, true, d.record(ctx, tx, "solution.create", SubjectKind, s.ID, map[string]any{"solution": s.String(), "digest": s.Digest})
}

// record writes the event and the audit entry of a creation.
func (d *Deps) record(ctx context.Context, tx pgx.Tx, action, kind, id string, after any) error {
	e := event.Event{SubjectKind: kind, SubjectID: id, Type: "created"}
	return db.RecordChange(ctx, tx, d.Events, d.Audit, action, e, after)
}

// ListSolutions lists the solutions visible to the caller, newest first.
func (s *Server) ListSolutions(ctx context.Context, in *registryv1.ListSolutionsRequest) (*registryv1.ListSolutionsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, authn.ScopeOf(ctx), access.Filter{Name: in.GetName(), Project: in.GetProject(), Text: in.GetQ()}, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListSolutionsResponse{}
	for _, one := range found {
		out.Solutions = append(out.Solutions, ToProto(one))
	}
	return out, request.SetMore(ctx, more)
}

// GetSolution returns one solution.
func (s *Server) GetSolution(ctx context.Context, in *registryv1.GetSolutionRequest) (*registryv1.Solution, error) {
	if err := request.ID(id.Solution, "solution_id", in.GetSolutionId()); err != nil {
		return nil, err
	}
	found, err := s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), in.GetSolutionId())
	if err != nil {
		return nil, err
	}
	return ToProto(found), nil
}
