package ingest

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	ingestrun "github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

func (s *Service) holds() *artifact.Holds {
	return &artifact.Holds{Pool: s.deps.Pool, For: retention.Days(s.cfg.ObjectDays), Quota: s.quota}
}

// Retention returns the rules that delete rows at a configured age.
func (s *Service) Retention() []retention.Rule {
	expiry, holds := &ingestrun.Expiry{Pool: s.deps.Pool}, s.holds()
	objects := retention.Days(s.cfg.ObjectDays)
	return []retention.Rule{
		{
			Name: "request digest", Age: retention.Days(s.cfg.DigestDays),
			Step: func(ctx context.Context, before time.Time, limit int) (int64, error) {
				return groupcommit.DeleteDigests(ctx, s.deps.Pool, before, limit)
			},
		},
		{Name: "run data", Age: retention.Days(s.cfg.RunDataDays), Step: expiry.Clear},
		{Name: "object hold", Age: objects, Step: holds.DeleteBefore},
		{Name: "unused object", Age: objects, Least: retention.LeastObjects, Step: s.sweeper.Step},
	}
}
