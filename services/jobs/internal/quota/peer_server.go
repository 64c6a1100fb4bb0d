package quota

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
)

// PeerServer implements QuotaPeerService.
type PeerServer struct {
	jobspeerv1.UnimplementedQuotaPeerServiceServer
	Pool   *pgxpool.Pool
	Ledger Ledger
}

// GetAccountQuota returns an account's limit, the GPUs it holds and the GPUs its queued jobs request.
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
