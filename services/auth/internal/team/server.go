package team

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// Server implements TeamService.
type Server struct {
	authv1.UnimplementedTeamServiceServer

	Pool  *pgxpool.Pool
	Once  *idempotency.Once
	Audit *audit.Log
	IDs   *id.Source
	Clock clock.Clock
}

// CreateTeam implements TeamService. A new team has no members.
func (s *Server) CreateTeam(ctx context.Context, in *authv1.CreateTeamRequest) (*authv1.Team, error) {
	if err := account.CheckName("name", in.GetName()); err != nil {
		return nil, err
	}
	out := &authv1.Team{}
	err := s.Once.Do(ctx, authv1.TeamService_CreateTeam_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		t := Team{ID: s.IDs.New(id.Team), Key: in.GetKey(), Name: in.GetName(), CreatedAt: s.Clock.Now()}
		if err := insert(ctx, tx, t); err != nil {
			return err
		}
		idempotency.Set(out, toProto(t))
		return s.record(ctx, tx, "team.create", t.ID, nil, map[string]any{"key": t.Key, "name": t.Name})
	})
	return out, err
}

// ListTeams implements TeamService.
func (s *Server) ListTeams(ctx context.Context, in *authv1.ListTeamsRequest) (*authv1.ListTeamsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	teams, err := list(ctx, s.Pool, authn.ScopeOf(ctx), p)
	if err != nil {
		return nil, err
	}
	teams, more := request.CutPage(teams, p)
	out := &authv1.ListTeamsResponse{}
	for _, t := range teams {
		out.Teams = append(out.Teams, toProto(t))
	}
	return out, request.SetMore(ctx, more)
}

// GetTeam implements TeamService.
func (s *Server) GetTeam(ctx context.Context, in *authv1.GetTeamRequest) (*authv1.Team, error) {
	if err := request.ID(id.Team, "team_id", in.GetTeamId()); err != nil {
		return nil, err
	}
	t, err := get(ctx, s.Pool, authn.ScopeOf(ctx), in.GetTeamId())
	if err != nil {
		return nil, err
	}
	return toProto(t), nil
}

// UpdateTeam implements TeamService.
func (s *Server) UpdateTeam(ctx context.Context, in *authv1.UpdateTeamRequest) (*authv1.Team, error) {
	return s.change(ctx, in.GetTeamId(), func(ctx context.Context, tx pgx.Tx, t Team) error {
		if in.Name == nil || in.GetName() == t.Name {
			return nil
		}
		if err := account.CheckName("name", in.GetName()); err != nil {
			return err
		}
		if err := rename(ctx, tx, t.ID, in.GetName()); err != nil {
			return err
		}
		return s.record(ctx, tx, "team.update", t.ID, map[string]any{"name": t.Name}, map[string]any{"name": in.GetName()})
	})
}

// DeleteTeam implements TeamService.
func (s *Server) DeleteTeam(ctx context.Context, in *authv1.DeleteTeamRequest) (*emptypb.Empty, error) {
	if err := request.ID(id.Team, "team_id", in.GetTeamId()); err != nil {
		return nil, err
	}
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		t, err := find(ctx, tx, in.GetTeamId())
		if err != nil {
			return err
		}
		if err := remove(ctx, tx, t.ID); err != nil {
			return err
		}
		return s.record(ctx, tx, "team.delete", t.ID, map[string]any{"key": t.Key, "name": t.Name}, nil)
	})
	return &emptypb.Empty{}, err
}

// PutTeamMember implements TeamService.
func (s *Server) PutTeamMember(ctx context.Context, in *authv1.PutTeamMemberRequest) (*authv1.Team, error) {
	return s.change(ctx, in.GetTeamId(), func(ctx context.Context, tx pgx.Tx, t Team) error {
		a, err := account.FindByUsername(ctx, tx, in.GetUsername())
		if err != nil {
			return err
		}
		was := t.role(a.Username)
		if was == "" && len(t.Members) >= MaxMembers {
			return full(t.ID)
		}
		role := roles()[in.GetRole()]
		ok, err := account.JoinTeam(ctx, tx, t.ID, a.ID, role)
		if err != nil {
			return err
		}
		if !ok {
			return inTooMany(a.Username)
		}
		return s.record(ctx, tx, "team.member.put", t.ID, audited(a, was), audited(a, role))
	})
}

// RemoveTeamMember implements TeamService.
func (s *Server) RemoveTeamMember(ctx context.Context, in *authv1.RemoveTeamMemberRequest) (*emptypb.Empty, error) {
	_, err := s.change(ctx, in.GetTeamId(), func(ctx context.Context, tx pgx.Tx, t Team) error {
		a, err := account.FindByUsername(ctx, tx, in.GetUsername())
		if err != nil {
			return err
		}
		was, err := leave(ctx, tx, t.ID, a.ID)
		if err != nil {
			return err
		}
		if was == "" {
			return account.NotFound(in.GetUsername())
		}
		return s.record(ctx, tx, "team.member.remove", t.ID, audited(a, was), nil)
	})
	return &emptypb.Empty{}, err
}

// change locks a team, checks that the caller may change it, runs the function fn on it, and returns the changed team.
func (s *Server) change(ctx context.Context, teamID string, fn func(ctx context.Context, tx pgx.Tx, t Team) error) (*authv1.Team, error) {
	if err := request.ID(id.Team, "team_id", teamID); err != nil {
		return nil, err
	}
	scope := authn.ScopeOf(ctx)
	var t Team
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		if t, err = lock(ctx, tx, scope, teamID); err != nil {
			return err
		}
		if err := scope.RequireTeam(t.ID); err != nil {
			return err
		}
		if err := fn(ctx, tx, t); err != nil {
			return err
		}
		t, err = get(ctx, tx, scope, teamID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return toProto(t), nil
}

func (s *Server) record(ctx context.Context, tx pgx.Tx, action, teamID string, before, after any) error {
	return s.Audit.Record(ctx, tx, audit.Entry{Action: action, TargetKind: kind, TargetID: teamID, Before: before, After: after})
}

// audited returns the fields of a member that are written to the audit log, or nil if the role is empty.
func audited(a account.Account, role string) any {
	if role == "" {
		return nil
	}
	return map[string]any{"user_id": a.ID, "username": a.Username, "role": role}
}

func (t *Team) role(username string) string {
	if i := slices.IndexFunc(t.Members, func(m Member) bool { return m.Username == username }); i >= 0 {
		return t.Members[i].Role
	}
	return ""
}

func roles() map[authv1.TeamRole]string {
	return map[authv1.TeamRole]string{
		authv1.TeamRole_TEAM_ROLE_MEMBER: account.TeamMember, authv1.TeamRole_TEAM_ROLE_LEAD: account.TeamLead,
	}
}

func toProto(t Team) *authv1.Team {
	out := &authv1.Team{Id: t.ID, Key: t.Key, Name: t.Name, CreatedAt: timestamppb.New(t.CreatedAt), MemberCount: int32(t.MemberCount)}
	for _, m := range t.Members {
		role := authv1.TeamRole_TEAM_ROLE_MEMBER
		if m.Role == account.TeamLead {
			role = authv1.TeamRole_TEAM_ROLE_LEAD
		}
		out.Members = append(out.Members, &authv1.TeamMember{Username: m.Username, Role: role})
	}
	return out
}
