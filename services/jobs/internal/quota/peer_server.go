package quota

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// PeerServer implements QuotaPeerService.
type PeerServer struct {
	jobspeerv1.UnimplementedQuotaPeerServiceServer

	accounts *pg.Loader[string, Account]
}

// NewPeerServer returns a server that reads the accounts of concurrent callers together, because every page of the
// web console shows the quota.
func NewPeerServer(pool *pgxpool.Pool, l Ledger) *PeerServer {
	return &PeerServer{accounts: pg.NewLoader(func(ctx context.Context, ids []string) (map[string]Account, error) {
		return l.Accounts(ctx, pool, User, ids)
	})}
}

// GetAccountQuota returns an account's limit, the GPUs it holds and the GPUs its queued jobs request.
func (s *PeerServer) GetAccountQuota(
	ctx context.Context, req *jobspeerv1.GetAccountQuotaRequest,
) (*jobspeerv1.AccountQuota, error) {
	a, _, err := s.accounts.Get(ctx, req.GetUserId())
	if err != nil {
		return nil, err
	}
	return &jobspeerv1.AccountQuota{
		GpuLimit: int32(a.Limit), GpuHeld: int32(a.Held), GpuQueued: int32(a.Queued), GpuAvailable: int32(a.Available()),
	}, nil
}
