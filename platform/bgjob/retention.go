package bgjob

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// DeleteBefore deletes jobs that finished before the given time, whatever their result, up to the given limit. It
// returns the number of deleted jobs.
func DeleteBefore(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM river_job WHERE id IN (
		SELECT id FROM river_job WHERE state IN ('completed', 'cancelled', 'discarded') AND finalized_at IS NOT NULL AND finalized_at < $1
		LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete finished background jobs: %w", err)
	}
	return tag.RowsAffected(), nil
}
