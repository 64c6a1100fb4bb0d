package quota

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
)

// PeerServer answers QuotaPeerService.
type PeerServer struct {
	jobspeerv1.UnimplementedQuotaPeerServiceServer
	Pool   *pgxpool.Pool
	Ledger Ledger
}

// GetAccountQuota tells what an account may hold, holds and waits for.
func (s *PeerServer) GetAccountQuota(
	ctx context.Context, req *jobspeerv1.GetAccountQuotaRequest,
) (*jobspeerv1.AccountQuota, error) {
	a, err := s.Ledger.Account(ctx, s.Pool, req.GetUserId())
	if err != nil {
		return nil, err
	}
	return &jobspeerv1.AccountQuota{
		GpuLimit: int32(a.Limit), GpuHeld: int32(a.Held), GpuQueued: int32(a.Queued), GpuAvailable: int32(a.Available()),
	}, nil
}
