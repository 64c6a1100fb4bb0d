package project

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/emptypb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// ListProjectMembers implements ProjectService.
func (s *Server) ListProjectMembers(ctx context.Context, in *authv1.ListProjectMembersRequest) (*authv1.ListProjectMembersResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	of, err := s.seen(ctx, in.GetProjectId())
	if err != nil {
		return nil, err
	}
	list, err := members(ctx, s.Pool, of.ID, p)
	if err != nil {
		return nil, err
	}
	list, more := request.CutPage(list, p)
	out := &authv1.ListProjectMembersResponse{}
	for _, m := range list {
		out.Members = append(out.Members, memberToProto(m))
	}
	return out, request.SetMore(ctx, more)
}

// PutProjectMember implements ProjectService.
func (s *Server) PutProjectMember(ctx context.Context, in *authv1.PutProjectMemberRequest) (*authv1.ProjectMember, error) {
	out := &authv1.ProjectMember{Role: in.GetRole()}
	err := s.change(ctx, in.GetProjectId(), func(ctx context.Context, tx pgx.Tx, p Project) error {
		a, err := account.FindByUsername(ctx, tx, in.GetUsername())
		if err != nil {
			return err
		}
		was, err := roleOf(ctx, tx, p.ID, a.ID)
		if err != nil {
			return err
		}
		role := roles()[in.GetRole()]
		ok, err := put(ctx, tx, p.ID, a.ID, role)
		if err != nil {
			return err
		}
		if !ok {
			return full(p.ID)
		}
		if err := s.keepOwner(ctx, tx, p, was); err != nil {
			return err
		}
		out.Username = a.Username
		return s.record(ctx, tx, "project.member.put", p.ID, member(a, was), member(a, role))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// RemoveProjectMember implements ProjectService.
func (s *Server) RemoveProjectMember(ctx context.Context, in *authv1.RemoveProjectMemberRequest) (*emptypb.Empty, error) {
	err := s.change(ctx, in.GetProjectId(), func(ctx context.Context, tx pgx.Tx, p Project) error {
		a, err := account.FindByUsername(ctx, tx, in.GetUsername())
		if err != nil {
			return err
		}
		was, err := roleOf(ctx, tx, p.ID, a.ID)
		if err != nil {
			return err
		}
		if was == "" {
			return account.NotFound(in.GetUsername())
		}
		if err := leave(ctx, tx, p.ID, a.ID); err != nil {
			return err
		}
		if err := s.keepOwner(ctx, tx, p, was); err != nil {
			return err
		}
		return s.record(ctx, tx, "project.member.remove", p.ID, member(a, was), nil)
	})
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// keepOwner returns an error if the change leaves the project without an owner.
func (s *Server) keepOwner(ctx context.Context, tx pgx.Tx, p Project, was string) error {
	if was != roleOwner {
		return nil
	}
	ok, err := owned(ctx, tx, p.ID)
	if err != nil || ok {
		return err
	}
	return lastOwner(p.ID)
}

// member returns the fields of a member that are written to the audit log, or nil if the role is empty.
func member(a account.Account, role string) any {
	if role == "" {
		return nil
	}
	return map[string]any{"user_id": a.ID, "username": a.Username, "role": role}
}
