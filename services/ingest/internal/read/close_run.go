package read

import (
	"context"

	"github.com/jackc/pgx/v5"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// CloseRun implements RunDataPeerService. It finishes unfinished lines and ends the streams with eof, even if the run
// never reported. Only the first call has an effect.
func (s *PeerServer) CloseRun(ctx context.Context, in *ingestpeerv1.CloseRunRequest) (*ingestpeerv1.CloseRunResponse, error) {
	o, err := s.Runs.Find(ctx, in.GetRunId())
	if err != nil {
		return nil, err
	}
	ended := request.TimeOf(in.GetEndedAt())
	closed := make(chan bool, 1)
	_, err = s.Store.Store(ctx, groupcommit.Item{
		RunID: o.RunID, Unfenced: true,
		Write: func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
			if err := logs.End(ctx, tx, batch, r); err != nil {
				return err
			}
			first, err := run.Close(ctx, tx, r.ID, in.GetState(), ended, r.Now)
			if err != nil {
				return err
			}
			r.Fresh = r.Fresh || first
			r.Committed(func() { closed <- first })
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &ingestpeerv1.CloseRunResponse{Closed: <-closed}, nil
}
