package profile

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// sessions is implemented by *session.Sessions.
type sessions interface {
	List(ctx context.Context, accountID string, p request.Page) ([]session.Info, bool, error)
	Revoke(ctx context.Context, c *authn.Caller, sessionID string) error
	RevokeOthers(ctx context.Context, c *authn.Caller) error
	EndAll(ctx context.Context, tx pgx.Tx, accountID string, why session.Reason, except string) (int, error)
}

// ListSessions implements ProfileService. The newest session comes first.
func (s *Server) ListSessions(ctx context.Context, in *authv1.ListSessionsRequest) (*authv1.ListSessionsResponse, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	found, more, err := s.Sessions.List(ctx, c.Subject, p)
	if err != nil {
		return nil, err
	}
	out := &authv1.ListSessionsResponse{}
	for _, one := range found {
		out.Sessions = append(out.Sessions, &authv1.UserSession{
			Id: one.ID, Method: string(one.Method), ClientAddress: one.ClientAddress, ClientName: one.ClientName,
			CreatedAt: timestamppb.New(one.CreatedAt), LastUsedAt: timestamppb.New(one.LastUsedAt), Current: one.ID == c.SessionID,
		})
	}
	return out, request.SetMore(ctx, more)
}

// RevokeSession implements ProfileService. The calling session may be revoked, too.
func (s *Server) RevokeSession(ctx context.Context, in *authv1.RevokeSessionRequest) (*emptypb.Empty, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	if err := request.ID(id.Session, "session_id", in.GetSessionId()); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.Sessions.Revoke(ctx, c, in.GetSessionId())
}

// RevokeOtherSessions implements ProfileService.
func (s *Server) RevokeOtherSessions(ctx context.Context, _ *authv1.RevokeOtherSessionsRequest) (*emptypb.Empty, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.Sessions.RevokeOthers(ctx, c)
}
