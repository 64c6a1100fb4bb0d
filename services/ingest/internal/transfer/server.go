// Package transfer transfers the run data of a user to another user. The jobs service owns the runs; ingest stores a
// copy of their owners, so that a read needs no call to the jobs service. If a response of that service was sent before
// a transfer but arrives later, it does not undo the transfer.
//
// The package also applies the visibility of a project to the data of its runs.
package transfer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// kindRunData is the kind of the data that ingest stores for a run. The run itself belongs to the jobs service.
const kindRunData = "run_data"

// Server implements OwnerPeerService.
type Server struct {
	commonpeerv1.UnimplementedOwnerPeerServiceServer

	Pool  *pgxpool.Pool
	Audit *audit.Log
}

// CountOwned counts the user's runs that have data in ingest.
func (s *Server) CountOwned(ctx context.Context, in *commonpeerv1.CountOwnedRequest) (*commonpeerv1.OwnedCounts, error) {
	n, err := count(ctx, s.Pool, in.GetUserId())
	if err != nil {
		return nil, err
	}
	return countToProto(n), nil
}

// TransferOwned transfers the data of all runs of a user to another user and returns the number of these runs.
func (s *Server) TransferOwned(ctx context.Context, in *commonpeerv1.TransferOwnedRequest) (*commonpeerv1.OwnedCounts, error) {
	moved := 0
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if moved, err = give(ctx, tx, in.GetUserId(), in.GetToUserId()); err != nil || moved == 0 {
			return err
		}
		err = s.Audit.Record(ctx, tx, audit.Entry{
			Action: "run_data.transfer", TargetKind: "account", TargetID: in.GetUserId(),
			After: map[string]any{"owner_id": in.GetToUserId(), "runs": moved},
		})
		if err != nil {
			return fmt.Errorf("record the transfer of runs: %w", err)
		}
		return nil
	})
	return countToProto(moved), err
}

func countToProto(n int) *commonpeerv1.OwnedCounts {
	return &commonpeerv1.OwnedCounts{Counts: []*commonpeerv1.OwnedCount{{Kind: kindRunData, Count: int32(n)}}}
}
