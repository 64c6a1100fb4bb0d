package playground

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// PeerServer implements PlaygroundPeerService.
type PeerServer struct {
	registrypeerv1.UnimplementedPlaygroundPeerServiceServer

	*Server
}

// retryReady is the Retry-After of a call to a target that is not ready.
const retryReady = 5 * time.Second

// caller returns the user on whose behalf another service makes a call. The interceptors do not require a user or a
// changed password on such calls, so caller checks both.
func caller(ctx context.Context) (*authn.Caller, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	if c.PasswordDrawn {
		return nil, fault.New(fault.Forbidden, rpc.CodePasswordChange, "your password is temporary; change it first with POST /api/profile/password")
	}
	return c, nil
}

// AdmitCall returns the address of a ready target. The caller must own the session or be a member of its project.
func (s *PeerServer) AdmitCall(ctx context.Context, in *registrypeerv1.AdmitCallRequest) (*registrypeerv1.AdmitCallResponse, error) {
	c, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	session, err := s.seen(ctx, c, in.GetPlaygroundId())
	if err != nil {
		return nil, err
	}
	member := session.Owner
	member.Visibility = ""
	if !member.Seen(c.Reads()) {
		return nil, fault.New(fault.Forbidden, "not_member", "only the owner and members of project %s may call %s %s", session.Project, SubjectKind, session.ID)
	}
	r, err := s.target(ctx, session, in.GetTarget())
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	if err := session.ended(now); err != nil {
		return nil, err
	}
	if r.State != revision.Ready || r.Engine.Address == "" {
		why := string(r.State)
		if r.Reason != nil {
			why = r.Reason.Short()
		}
		return nil, fault.New(fault.Unavailable, "session_not_ready", "target %d is not ready: %s", r.Number, why).WithRetryAfter(retryReady)
	}
	if err := s.Store.Touch(ctx, s.Pool, session.ID, now); err != nil {
		return nil, err
	}
	return &registrypeerv1.AdmitCallResponse{
		Replica: revision.ReplicaToProto(r), ExpiresAt: timestamppb.New(session.ExpiresAt), UserId: c.Subject, Username: c.Username,
	}, nil
}

func (s *PeerServer) seen(ctx context.Context, c *authn.Caller, sessionID string) (*Session, error) {
	if err := request.ID(id.Playground, "playground_id", sessionID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, c.Reads(), sessionID)
}

// KeepSession records that a call of a session is still running.
func (s *PeerServer) KeepSession(ctx context.Context, in *registrypeerv1.KeepSessionRequest) (*registrypeerv1.KeepSessionResponse, error) {
	session, err := s.Store.Get(ctx, s.Pool, access.ServiceScope(), in.GetPlaygroundId())
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	if err := session.ended(now); err != nil {
		return nil, err
	}
	return &registrypeerv1.KeepSessionResponse{ExpiresAt: timestamppb.New(session.ExpiresAt)}, s.Store.Touch(ctx, s.Pool, session.ID, now)
}

// SeeSession returns an error unless the caller can see the session.
func (s *PeerServer) SeeSession(ctx context.Context, in *registrypeerv1.SeeSessionRequest) (*registrypeerv1.SeeSessionResponse, error) {
	c, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.seen(ctx, c, in.GetPlaygroundId()); err != nil {
		return nil, err
	}
	return &registrypeerv1.SeeSessionResponse{}, nil
}
