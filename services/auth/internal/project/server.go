package project

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// Server implements the public ProjectService.
type Server struct {
	authv1.UnimplementedProjectServiceServer

	Pool  *pgxpool.Pool
	Once  *idempotency.Once
	Audit *audit.Log
	IDs   *id.Source
	Clock clock.Clock
	// Copies sends the visibility of projects to the services that copy it.
	Copies *VisibilitySync
}

// CreateProject implements ProjectService. The caller becomes the owner.
func (s *Server) CreateProject(ctx context.Context, in *authv1.CreateProjectRequest) (*authv1.Project, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	if err := account.CheckName("name", in.GetName()); err != nil {
		return nil, err
	}
	if err := account.CheckText("description", in.GetDescription()); err != nil {
		return nil, err
	}
	team := request.NonEmpty(in.GetTeamId())
	if team != nil && !authn.ScopeOf(ctx).SeesTeam(*team) {
		return nil, noTeam(*team)
	}
	out := &authv1.Project{}
	err = s.Once.Do(ctx, authv1.ProjectService_CreateProject_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		p := Project{
			ID: s.IDs.New(id.Project), Key: in.GetKey(), Name: in.GetName(), Description: request.NonEmpty(in.GetDescription()), TeamID: team,
			Visibility: visibility(in.GetVisibility(), visibleToTeam), CreatedAt: s.Clock.Now(),
		}
		if err := insert(ctx, tx, p); err != nil {
			return err
		}
		if _, err := put(ctx, tx, p.ID, c.Subject, roleOwner); err != nil {
			return err
		}
		idempotency.Set(out, toProto(p))
		return s.record(ctx, tx, "project.create", p.ID, nil, audited(p))
	})
	return out, err
}

// ListProjects implements ProjectService.
func (s *Server) ListProjects(ctx context.Context, in *authv1.ListProjectsRequest) (*authv1.ListProjectsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	projects, err := list(ctx, s.Pool, authn.ScopeOf(ctx), p)
	if err != nil {
		return nil, err
	}
	projects, more := request.CutPage(projects, p)
	out := &authv1.ListProjectsResponse{}
	for _, one := range projects {
		out.Projects = append(out.Projects, toProto(one))
	}
	return out, request.SetMore(ctx, more)
}

// GetProject implements ProjectService.
func (s *Server) GetProject(ctx context.Context, in *authv1.GetProjectRequest) (*authv1.Project, error) {
	p, err := s.seen(ctx, in.GetProjectId())
	if err != nil {
		return nil, err
	}
	return toProto(p), nil
}

// seen returns a project that the caller may read.
func (s *Server) seen(ctx context.Context, projectID string) (Project, error) {
	if err := request.ID(id.Project, "project_id", projectID); err != nil {
		return Project{}, err
	}
	return get(ctx, s.Pool, authn.ScopeOf(ctx), projectID)
}

// UpdateProject implements ProjectService. If the request contains a visibility, every service has confirmed it when
// the call succeeds, even if an earlier, interrupted call made the change.
func (s *Server) UpdateProject(ctx context.Context, in *authv1.UpdateProjectRequest) (*authv1.Project, error) {
	var after Project
	unarchive := in.Archived != nil && !in.GetArchived()
	err := s.locked(ctx, in.GetProjectId(), func(ctx context.Context, tx pgx.Tx, p Project) error {
		if p.ArchivedAt != nil && !unarchive {
			return authn.ProjectArchived(p.Key)
		}
		before := audited(p)
		if err := describe(&p, in); err != nil {
			return err
		}
		if err := s.show(ctx, tx, &p, visibility(in.GetVisibility(), p.Visibility)); err != nil {
			return err
		}
		if in.Archived != nil && in.GetArchived() != (p.ArchivedAt != nil) {
			if err := s.archive(&p, in.GetArchived()); err != nil {
				return err
			}
		}
		if err := save(ctx, tx, p); err != nil {
			return err
		}
		after = p
		return s.record(ctx, tx, "project.update", p.ID, before, audited(p))
	})
	if err != nil {
		return nil, err
	}
	if in.GetVisibility() != authv1.ProjectVisibility_PROJECT_VISIBILITY_UNSPECIFIED {
		if err := s.Copies.Finish(ctx, after.ID); err != nil {
			return nil, err
		}
	}
	return toProto(after), nil
}

// describe checks and applies the name and the description, if the request has them.
func describe(p *Project, in *authv1.UpdateProjectRequest) error {
	if in.Name != nil {
		p.Name = in.GetName()
		if err := account.CheckName("name", p.Name); err != nil {
			return err
		}
	}
	if in.Description != nil {
		p.Description = request.NonEmpty(in.GetDescription())
	}
	return account.CheckText("description", in.GetDescription())
}

// show changes the visibility of a locked project and records that every service must confirm it.
func (s *Server) show(ctx context.Context, tx pgx.Tx, p *Project, visibility string) error {
	if p.Visibility == visibility {
		return nil
	}
	p.Visibility = visibility
	p.VisibilityVersion++
	return s.Copies.begin(ctx, tx, *p)
}

func (s *Server) archive(p *Project, archived bool) error {
	p.ArchivedAt = nil
	if !archived {
		return nil
	}
	if p.Key == defaultKey {
		return neverArchived()
	}
	now := s.Clock.Now()
	p.ArchivedAt = &now
	return nil
}

// change locks a project, checks that the caller may change it, and runs the function fn on it. An archived project is
// refused.
func (s *Server) change(ctx context.Context, projectID string, fn func(ctx context.Context, tx pgx.Tx, p Project) error) error {
	return s.locked(ctx, projectID, func(ctx context.Context, tx pgx.Tx, p Project) error {
		if p.ArchivedAt != nil {
			return authn.ProjectArchived(p.Key)
		}
		return fn(ctx, tx, p)
	})
}

// locked is like change, but also accepts an archived project.
func (s *Server) locked(ctx context.Context, projectID string, fn func(ctx context.Context, tx pgx.Tx, p Project) error) error {
	if err := request.ID(id.Project, "project_id", projectID); err != nil {
		return err
	}
	scope := authn.ScopeOf(ctx)
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		p, err := lock(ctx, tx, scope, projectID)
		if err != nil {
			return err
		}
		if err := scope.Require("", p.ID, kind, p.ID); err != nil {
			return err
		}
		return fn(ctx, tx, p)
	})
}

func (s *Server) record(ctx context.Context, tx pgx.Tx, action, projectID string, before, after any) error {
	return s.Audit.Record(ctx, tx, audit.Entry{Action: action, TargetKind: kind, TargetID: projectID, Before: before, After: after})
}

// audited returns the fields of a project that are written to the audit log.
func audited(p Project) map[string]any {
	return map[string]any{
		"key": p.Key, "name": p.Name, "description": p.Description, "team_id": p.TeamID, "visibility": p.Visibility,
		"archived_at": p.ArchivedAt,
	}
}
