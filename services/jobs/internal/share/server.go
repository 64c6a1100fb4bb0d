package share

import (
	"context"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/emptypb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// Server implements ShareService.
type Server struct {
	jobsv1.UnimplementedShareServiceServer
	Pool      *pgxpool.Pool
	Store     Store
	Runs      run.Store
	Live      *Live
	Once      *idempotency.Once
	IDs       *id.Source
	Rand      io.Reader
	Events    *event.Log
	Trail     db.Recorder
	PublicURL func() string
}

// CreateShare creates a link. A repeat with the same idempotency key returns the row without the token.
func (s *Server) CreateShare(ctx context.Context, req *jobsv1.CreateShareRequest) (*jobsv1.Share, error) {
	const method = jobsv1.ShareService_CreateShare_FullMethodName
	resp := &jobsv1.Share{}
	if replayed, err := s.Once.Replay(ctx, method, req, resp); err != nil || replayed {
		return resp, err
	}
	share, runs, err := s.draft(ctx, req)
	if err != nil {
		return nil, err
	}
	var pins []pin
	if share.Pinned {
		if pins, err = s.Live.gather(ctx, share, runs); err != nil {
			return nil, err
		}
	}
	token, err := secret.Mint(s.Rand, secret.KindShare)
	if err != nil {
		return nil, err
	}
	share.Prefix = token.Reveal()[:prefixLength]
	fresh := false
	err = s.Once.Do(ctx, method, req, resp, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.keep(ctx, tx, share, secret.Hash(token.Reveal()), pins); err != nil {
			return err
		}
		fresh = true
		idempotency.Set(resp, shareToProto(share))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if fresh {
		shown := token.Reveal()
		url := s.PublicURL() + "/api/share/" + shown
		resp.Token, resp.Url = &shown, &url
	}
	return resp, nil
}

// draft checks the request and finds the runs, which the caller must be allowed to change.
func (s *Server) draft(ctx context.Context, req *jobsv1.CreateShareRequest) (*Share, []*run.Run, error) {
	caller, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, nil, err
	}
	now, err := pg.Now(ctx, s.Pool)
	if err != nil {
		return nil, nil, err
	}
	share := &Share{
		ID: s.IDs.New(id.Share), Kind: kindFromProto(req.GetKind()), Title: req.GetTitle(), OwnerID: caller.Subject,
		OwnerName: caller.Username, Targets: req.GetTargetIds(), Fields: req.GetFields(), Pinned: req.GetPinned(), CreatedAt: now,
	}
	if len(share.Fields) == 0 {
		share.Fields = []string{Metrics, Config}
	}
	share.ExpiresAt = request.TimeOf(req.GetExpiresAt())
	if faults := share.Check(now); len(faults) > 0 {
		return nil, nil, fault.InvalidFields(faults...)
	}
	runs := make([]*run.Run, 0, len(share.Targets))
	for _, target := range share.Targets {
		r, err := s.target(ctx, target)
		if err != nil {
			return nil, nil, err
		}
		runs, share.Runs = append(runs, r), append(share.Runs, r.ID)
	}
	return share, runs, nil
}

// target finds a run to be shared. The caller must be allowed to see and change the run, which must not be protected.
func (s *Server) target(ctx context.Context, target string) (*run.Run, error) {
	scope := authn.ScopeOf(ctx)
	r, err := s.Runs.Get(ctx, s.Pool, scope, target)
	if err != nil {
		return nil, err
	}
	if err := scope.Require(r.OwnerID, r.ProjectID, run.KindOfID(target), target); err != nil {
		return nil, err
	}
	protected, err := s.Live.Protected(ctx, r)
	if err != nil {
		return nil, err
	}
	if protected {
		return nil, fault.New(fault.Forbidden, "protected_dataset", "%s cannot be shared, because it reads a protected dataset", target)
	}
	return r, nil
}

func (s *Server) keep(ctx context.Context, tx pgx.Tx, share *Share, hash []byte, pins []pin) error {
	if err := s.Store.lockRuns(ctx, tx, share.Runs); err != nil {
		return err
	}
	if err := s.Store.Insert(ctx, tx, share, hash); err != nil {
		return err
	}
	for _, p := range pins {
		if err := s.Store.InsertPin(ctx, tx, share.ID, p.run, p.part, p.data); err != nil {
			return err
		}
	}
	if _, err := s.Events.Append(ctx, tx, event.Event{SubjectKind: SubjectShare, SubjectID: share.ID, Type: "share.created"}); err != nil {
		return err
	}
	return s.Trail.Record(ctx, tx, "share.create", SubjectShare, share.ID, map[string]any{
		"kind": share.Kind, "target_ids": share.Targets, "fields": share.Fields, "pinned": share.Pinned, "expires_at": share.ExpiresAt,
	})
}

// linkOwner returns the owner whose links the caller may manage: the caller, or "" (everyone) for an admin.
func linkOwner(ctx context.Context) (string, error) {
	caller, err := authn.CallerOf(ctx).RequireUser()
	if err != nil || caller.IsAdmin() {
		return "", err
	}
	return caller.Subject, nil
}

// ListShares lists links, newest first.
func (s *Server) ListShares(ctx context.Context, req *jobsv1.ListSharesRequest) (*jobsv1.ListSharesResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	owner, err := linkOwner(ctx)
	if err != nil {
		return nil, err
	}
	shares, err := s.Store.List(ctx, s.Pool, owner, p)
	if err != nil {
		return nil, err
	}
	shares, more := request.CutPage(shares, p)
	resp := &jobsv1.ListSharesResponse{}
	for _, one := range shares {
		resp.Shares = append(resp.Shares, shareToProto(one))
	}
	return resp, request.SetMore(ctx, more)
}

// RevokeShare revokes a link.
func (s *Server) RevokeShare(ctx context.Context, req *jobsv1.RevokeShareRequest) (*emptypb.Empty, error) {
	if err := request.ID(id.Share, "share_id", req.GetShareId()); err != nil {
		return nil, err
	}
	owner, err := linkOwner(ctx)
	if err != nil {
		return nil, err
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		first, err := s.Store.Revoke(ctx, tx, owner, req.GetShareId(), now)
		if err != nil || !first {
			return err
		}
		if _, err := s.Events.Append(ctx, tx, event.Event{SubjectKind: SubjectShare, SubjectID: req.GetShareId(), Type: "share.revoked"}); err != nil {
			return err
		}
		return s.Trail.Record(ctx, tx, "share.revoke", SubjectShare, req.GetShareId(), nil)
	})
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}
