// Package record owns the reports that are kept as they came: hardware, environment, nodes, benchmarks.
package record

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/commit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// Write keeps the items of a report. One with a key replaces the one before it in the same attempt; one
// without is kept beside the others under a name from newID.
func Write(stream string, items []report.Item, newID func() string) commit.Write {
	return func(_ context.Context, _ pgx.Tx, batch *pgx.Batch, r *commit.Run) error {
		for _, item := range items {
			key := item.Key
			if key == "" {
				key = newID()
			}
			batch.Queue(`INSERT INTO record (run_id, stream, attempt, item, body, created_at) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (run_id, stream, attempt, item) DO UPDATE SET body = $5, created_at = $6`,
				r.ID, stream, r.Attempt, key, string(item.Body), r.Now)
		}
		return nil
	}
}
