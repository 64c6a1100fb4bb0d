package playground

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/emptypb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// Server implements PlaygroundService.
type Server struct {
	registryv1.UnimplementedPlaygroundServiceServer

	Pool      *pgxpool.Pool
	Changer   *Changer
	Store     Store
	Revisions *revision.Store
	Models    model.Store
	Projects  access.Projects
	Pools     deployment.Pools
	Once      *idempotency.Once
	Clock     clock.Clock
	IDs       *id.Source
	// Probe is how long an engine may take to become ready.
	Probe time.Duration
}

// CreatePlaygroundSession creates a session and orders an engine for each target.
func (s *Server) CreatePlaygroundSession(
	ctx context.Context, in *registryv1.CreatePlaygroundSessionRequest,
) (*registryv1.PlaygroundSession, error) {
	out := &registryv1.PlaygroundSession{}
	if done, err := s.Once.Replay(ctx, registryv1.PlaygroundService_CreatePlaygroundSession_FullMethodName, in, out); done || err != nil {
		return out, err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	session := &Session{
		Owner: owner, ID: s.IDs.New(id.Playground), Title: in.GetTitle(), State: stateLive, Idle: seconds(in.IdleTimeoutS, defaultIdle),
		CreatedAt: now, ExpiresAt: now.Add(seconds(in.TtlS, defaultTTL)), LastActivity: now,
	}
	targets, err := s.targets(ctx, session, in.GetTargets())
	if err != nil {
		return nil, err
	}
	err = s.Once.Do(ctx, registryv1.PlaygroundService_CreatePlaygroundSession_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Changer.Create(ctx, tx, session, targets); err != nil {
			return err
		}
		idempotency.Set(out, toProto(session, targets))
		return nil
	})
	return out, err
}

func seconds(given *int32, otherwise time.Duration) time.Duration {
	if given == nil {
		return otherwise
	}
	return time.Duration(*given) * time.Second
}

// targets returns the revisions of a new session. A model that the caller may not see gives the same error as a missing
// one.
func (s *Server) targets(ctx context.Context, session *Session, in []*registryv1.PlaygroundTargetRequest) ([]*revision.Revision, error) {
	var out []*revision.Revision
	for i, t := range in {
		m, v, err := deployment.Source(ctx, s.Pool, s.Models, t.GetSource())
		if err != nil {
			return nil, fault.From(err).Under("targets", i)
		}
		r, err := deployment.Candidate(s.IDs, session.CreatedAt, s.Probe, &deployment.Deployment{Owner: session.Owner, ID: session.ID, Name: "default"},
			m, v, revision.ServingFromProto(t.GetServing()))
		if err != nil {
			return nil, err
		}
		if err := s.Pools.Check(ctx, r.Serving.Pool); err != nil {
			return nil, err
		}
		r.Number, r.Deadline = int32(i+1), &session.ExpiresAt
		out = append(out, r)
	}
	return out, nil
}

// ListPlaygroundSessions returns the sessions that are visible to the caller, newest first.
func (s *Server) ListPlaygroundSessions(
	ctx context.Context, in *registryv1.ListPlaygroundSessionsRequest,
) (*registryv1.ListPlaygroundSessionsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, authn.ScopeOf(ctx), in.GetProject(), p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	ids := make([]string, len(found))
	for i, session := range found {
		ids[i] = session.ID
	}
	held, err := s.Revisions.Of(ctx, s.Pool, ids)
	if err != nil {
		return nil, err
	}
	out := &registryv1.ListPlaygroundSessionsResponse{}
	for _, session := range found {
		out.Sessions = append(out.Sessions, toProto(session, held[session.ID]))
	}
	return out, request.SetMore(ctx, more)
}

// GetPlaygroundSession returns one session.
func (s *Server) GetPlaygroundSession(ctx context.Context, in *registryv1.GetPlaygroundSessionRequest) (*registryv1.PlaygroundSession, error) {
	session, err := s.get(ctx, in.GetPlaygroundId())
	if err != nil {
		return nil, err
	}
	return s.show(ctx, session)
}

func (s *Server) get(ctx context.Context, sessionID string) (*Session, error) {
	if err := request.ID(id.Playground, "playground_id", sessionID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), sessionID)
}

// editable returns a session if the caller may change it.
func (s *Server) editable(ctx context.Context, sessionID string) (*Session, error) {
	session, err := s.get(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	return session, session.Require(authn.ScopeOf(ctx), SubjectKind, session.ID)
}

func (s *Server) show(ctx context.Context, session *Session) (*registryv1.PlaygroundSession, error) {
	held, err := s.Revisions.Of(ctx, s.Pool, []string{session.ID})
	if err != nil {
		return nil, err
	}
	return toProto(session, held[session.ID]), nil
}

// ExtendPlaygroundSession moves the expiry of a session.
func (s *Server) ExtendPlaygroundSession(
	ctx context.Context, in *registryv1.ExtendPlaygroundSessionRequest,
) (*registryv1.PlaygroundSession, error) {
	session, err := s.editable(ctx, in.GetPlaygroundId())
	if err != nil {
		return nil, err
	}
	if session, err = s.Changer.Extend(ctx, session.ID, time.Duration(in.GetSeconds())*time.Second); err != nil {
		return nil, err
	}
	return s.show(ctx, session)
}

// StopPlaygroundSession ends a session and its engines.
func (s *Server) StopPlaygroundSession(ctx context.Context, in *registryv1.StopPlaygroundSessionRequest) (*emptypb.Empty, error) {
	session, err := s.editable(ctx, in.GetPlaygroundId())
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.Changer.Stop(ctx, session.ID)
}

// target returns a target of a session by its number.
func (s *Server) target(ctx context.Context, session *Session, number int32) (*revision.Revision, error) {
	held, err := s.Revisions.Of(ctx, s.Pool, []string{session.ID})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(held[session.ID], func(r *revision.Revision) bool { return r.Number == number })
	if i < 0 {
		return nil, fault.Absentf("playground target", strconv.Itoa(int(number)))
	}
	return held[session.ID][i], nil
}
