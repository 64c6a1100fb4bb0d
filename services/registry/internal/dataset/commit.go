package dataset

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// commit makes a verified version ready; one that another call has just made ready stays as it is.
func (s *Server) commit(ctx context.Context, d *Dataset, v *Version) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now := s.Clock.Now()
		v.CommittedAt = &now
		done, err := s.Store.Commit(ctx, tx, v)
		if err != nil || !done {
			return err
		}
		return s.record(ctx, tx, "dataset.version.commit", d.ID,
			event.Event{Type: "version", From: string(StateUploading), To: string(StateReady), Message: v.Version},
			map[string]any{"version": v.Version, "digest": v.Digest, "bytes": v.Bytes})
	})
}
