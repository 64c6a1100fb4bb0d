package db

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// copiedRuns is the number of runs whose labels one statement copies.
const copiedRuns = 500

// CopyRunLabels gives the labels of their jobs to the runs that are older than the column labels, in small steps.
func CopyRunLabels(ctx context.Context, q pg.Querier) error {
	for {
		tag, err := q.Exec(ctx, `UPDATE run SET labels = coalesce((SELECT j.labels FROM job j WHERE j.run_id = run.id), '{}')
			WHERE id IN (SELECT id FROM run WHERE labels IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED) AND labels IS NULL`, copiedRuns)
		if err != nil {
			return fmt.Errorf("copy the labels of jobs to their runs: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
	}
}
