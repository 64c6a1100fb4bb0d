package quota

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// The kinds of subjects as used in routes.
const (
	users = "users"
	teams = "teams"
)

// Server implements QuotaService.
type Server struct {
	jobsv1.UnimplementedQuotaServiceServer
	Pool   *pgxpool.Pool
	Ledger Ledger
	People *AuthPeople
	Audit  *audit.Log
}

// GetQuota returns the caller's limit, the GPUs held and the GPUs that the caller's queued jobs request.
func (s *Server) GetQuota(ctx context.Context, _ *jobsv1.GetQuotaRequest) (*jobsv1.Quota, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	a, err := s.Ledger.Account(ctx, s.Pool, c.Subject)
	if err != nil {
		return nil, err
	}
	return toProto(users, c.Username, a), nil
}

// ListQuotas lists the quotas of all accounts, or of all teams, by name.
func (s *Server) ListQuotas(ctx context.Context, req *jobsv1.ListQuotasRequest) (*jobsv1.ListQuotasResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	kind := kindOf(req.GetSubjectKind())
	holders, err := s.People.list(ctx, kind, p)
	if err != nil {
		return nil, err
	}
	holders, more := request.CutPage(holders, p)
	ids := make([]string, len(holders))
	for i, h := range holders {
		ids[i] = h.id
	}
	accounts, err := s.Ledger.Accounts(ctx, s.Pool, kind, ids)
	if err != nil {
		return nil, err
	}
	resp := &jobsv1.ListQuotasResponse{}
	for _, h := range holders {
		resp.Quotas = append(resp.Quotas, toProto(req.GetSubjectKind(), h.name, accounts[h.id]))
	}
	return resp, request.SetMore(ctx, more)
}

// PutQuota sets a holder's limit, or restores the default, and wakes the scheduler.
func (s *Server) PutQuota(ctx context.Context, req *jobsv1.PutQuotaRequest) (*jobsv1.Quota, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return nil, err
	}
	kind := kindOf(req.GetSubjectKind())
	of, err := s.People.named(ctx, kind, req.GetSubject())
	if err != nil {
		return nil, err
	}
	var limit *int
	if req.GpuLimit != nil {
		requested := int(req.GetGpuLimit())
		limit = &requested
	}
	var now Account
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		before, err := s.Ledger.Set(ctx, tx, kind, of.id, limit, c.Subject)
		if err != nil {
			return err
		}
		accounts, err := s.Ledger.Accounts(ctx, tx, kind, []string{of.id})
		if err != nil {
			return err
		}
		now = accounts[of.id]
		if err := s.Audit.Record(ctx, tx, audit.Entry{
			Action: "quota.set", TargetKind: string(kind), TargetID: of.id, Before: limited(before), After: limited(limit),
		}); err != nil {
			return err
		}
		return pg.Notify(ctx, tx, db.QueueTopic)
	})
	if err != nil {
		return nil, err
	}
	return toProto(req.GetSubjectKind(), of.name, now), nil
}

func limited(limit *int) any { return map[string]any{"gpu_limit": limit} }

func kindOf(subjects string) Kind {
	if subjects == teams {
		return Team
	}
	return User
}

func toProto(subjects, name string, a Account) *jobsv1.Quota {
	return &jobsv1.Quota{
		SubjectKind: subjects, Subject: name, GpuLimit: int32(a.Limit), GpuHeld: int32(a.Held), GpuQueued: int32(a.Queued),
		GpuAvailable: int32(a.Available()),
	}
}
