package groupcommit

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// maxWriters is the maximum number of writers in the result of Watermark. A writer counts once for each stream.
const maxWriters = 10_000

// Watermark returns, for each stream and writer, the highest number up to which all requests are stored.
func Watermark(ctx context.Context, q pg.Querier, runID string) (map[string]map[string]int64, error) {
	rows, err := q.Query(ctx, `SELECT stream, writer, seq FROM mark WHERE run_id = $1 ORDER BY stream, writer LIMIT $2`,
		runID, maxWriters)
	if err != nil {
		return nil, fmt.Errorf("read the watermark: %w", err)
	}
	defer rows.Close()
	marks := map[string]map[string]int64{}
	for rows.Next() {
		var stream, writer string
		var seq int64
		if err := rows.Scan(&stream, &writer, &seq); err != nil {
			return nil, fmt.Errorf("read the watermark: %w", err)
		}
		if marks[stream] == nil {
			marks[stream] = map[string]int64{}
		}
		marks[stream][writer] = seq
	}
	return marks, rows.Err()
}
