package ingest

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

// Retention returns the rules for rows that reach an age.
func (s *Service) Retention() []retention.Rule {
	return []retention.Rule{{
		Name: "request digest", Age: s.digestAge,
		Step: func(ctx context.Context, before time.Time, limit int) (int64, error) {
			return groupcommit.DeleteDigests(ctx, s.deps.Pool, before, limit)
		},
	}}
}
