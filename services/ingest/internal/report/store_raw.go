package report

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

// Names of the streams of raw reports.
const (
	Environment = "environment"
	Nodes       = "environment_nodes"
)

// WriteRaw stores the items of a report. An item replaces an earlier item with the same key in the same attempt.
func WriteRaw(stream string, items []Item) groupcommit.Write {
	return func(_ context.Context, _ pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		for _, item := range items {
			batch.Queue(`INSERT INTO record (run_id, stream, attempt, item, body, created_at) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (run_id, stream, attempt, item) DO UPDATE SET body = $5, created_at = $6`,
				r.ID, stream, cmp.Or(item.Attempt, r.Attempt), item.Key, string(item.Body), r.Now)
		}
		return nil
	}
}

// RawRecord is one stored item; Body is the reported JSON.
type RawRecord struct {
	Attempt int32
	Body    []byte
	At      time.Time
}

// RawStore reads records.
type RawStore struct{ Pool pg.Querier }

const columns = `SELECT attempt, body, created_at FROM record WHERE run_id = $1 AND stream = $2`

// Environment returns the environment that the lowest rank of the given attempt reported. If attempt is nil, it returns
// that of the newest attempt that reported an environment. It returns nil if no such environment was reported.
func (s *RawStore) Environment(ctx context.Context, runID string, attempt *int32) (*RawRecord, error) {
	found, err := s.collect(ctx, columns+` AND ($3::int IS NULL OR attempt = $3) ORDER BY attempt DESC, item LIMIT 1`, runID, Environment, attempt)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Nodes returns a page of a run's nodes, ordered by rank, and whether another page follows. All nodes are from the
// newest attempt that reported nodes, so the list has no node that only earlier attempts used.
func (s *RawStore) Nodes(ctx context.Context, runID string, p request.Page) ([]RawRecord, bool, error) {
	found, err := s.collect(ctx, columns+` AND attempt = (SELECT max(attempt) FROM record WHERE run_id = $1 AND stream = $2)
		ORDER BY item::int LIMIT $3 OFFSET $4`, runID, Nodes, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, false, err
	}
	found, more := request.CutPage(found, p)
	return found, more, nil
}

func (s *RawStore) collect(ctx context.Context, sql string, args ...any) ([]RawRecord, error) {
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[RawRecord])
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return found, nil
}
