// Package owner gives ingest's rows of a person's runs to another person. Jobs owns the runs; ingest only
// repeats whose they are, so that it need not ask at each read. It promises that no answer of jobs from
// before the transfer, which was still on its way, takes a run back.
//
// It also makes what was reported to a project as visible as the project is.
package owner

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// kindRunData is what a run reported; the run itself is jobs'.
const kindRunData = "run_data"

// Server answers OwnerPeerService.
type Server struct {
	commonpeerv1.UnimplementedOwnerPeerServiceServer

	Pool  *pgxpool.Pool
	Audit *audit.Log
}

// CountOwned counts the runs that something was stored of.
func (s *Server) CountOwned(ctx context.Context, in *commonpeerv1.CountOwnedRequest) (*commonpeerv1.OwnedCounts, error) {
	n, err := count(ctx, s.Pool, in.GetUserId())
	if err != nil {
		return nil, err
	}
	return countToProto(n), nil
}

// TransferOwned gives them to another person.
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
