package reporting

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	// hearAgain is the time after which a run is noted as heard again. Ingest requests the grant of a token that is in
	// use every few seconds.
	hearAgain = 10 * time.Second
	// noticed is by how much hearAgain and the cache of ingest delay the note at most.
	noticed = hearAgain + 10*time.Second
)

// hear notes that a request with the token of a run has arrived.
func (outsideStore) hear(ctx context.Context, q pg.Querier, runID string, now time.Time) error {
	_, err := q.Exec(ctx, `UPDATE run SET heard_at = $2 WHERE id = $1 AND ended_at IS NULL AND heard_at < $3`, runID, now, now.Add(-hearAgain))
	if err != nil {
		return fmt.Errorf("note that run %s reports: %w", runID, err)
	}
	return nil
}

// quiet returns up to limit runs that were not heard for longer than their silence, the longest silent first. The time
// before since does not count.
func (outsideStore) quiet(ctx context.Context, q pg.Querier, now, since time.Time, limit int) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT id FROM run WHERE silence_s IS NOT NULL AND ended_at IS NULL AND closing IS NULL
		AND greatest(heard_at, $2::timestamptz) < $1::timestamptz - make_interval(secs => silence_s) ORDER BY heard_at, id LIMIT $3`,
		now.Add(-noticed), since, limit)
	if err != nil {
		return nil, fmt.Errorf("find silent runs: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find silent runs: %w", err)
	}
	return found, nil
}
