// Package record owns the reports that are stored verbatim: the environment of a run and the hardware of its nodes.
package record

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/commit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// Names of the record streams.
const (
	Environment = "environment"
	Nodes       = "environment_nodes"
)

// Write stores the items of a report. An item replaces the previous item of the same key in the same attempt.
func Write(stream string, items []report.Item) commit.Write {
	return func(_ context.Context, _ pgx.Tx, batch *pgx.Batch, r *commit.Run) error {
		for _, item := range items {
			batch.Queue(`INSERT INTO record (run_id, stream, attempt, item, body, created_at) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (run_id, stream, attempt, item) DO UPDATE SET body = $5, created_at = $6`,
				r.ID, stream, r.Attempt, item.Key, string(item.Body), r.Now)
		}
		return nil
	}
}

// Record is one stored item; Body is the reported JSON.
type Record struct {
	Attempt int32
	Body    []byte
	At      time.Time
}

// Store reads records.
type Store struct{ Pool pg.Querier }

const columns = `SELECT attempt, body, created_at FROM record WHERE run_id = $1 AND stream = $2`

// Picture returns the environment that an attempt reported, or that of the newest attempt if attempt is nil. It
// returns nil if no environment was reported.
func (s *Store) Picture(ctx context.Context, runID string, attempt *int32) (*Record, error) {
	found, err := s.collect(ctx, columns+` AND ($3::int IS NULL OR attempt = $3) ORDER BY attempt DESC LIMIT 1`, runID, Environment, attempt)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Nodes returns a page of a run's nodes, ordered by rank. All nodes come from the newest attempt that reported any,
// so nodes that only an earlier attempt used are not listed.
func (s *Store) Nodes(ctx context.Context, runID string, p page.Page) ([]Record, bool, error) {
	found, err := s.collect(ctx, columns+` AND attempt = (SELECT max(attempt) FROM record WHERE run_id = $1 AND stream = $2)
		ORDER BY item::int LIMIT $3 OFFSET $4`, runID, Nodes, p.Ask(), p.Offset)
	if err != nil {
		return nil, false, err
	}
	found, more := page.Cut(found, p)
	return found, more, nil
}

func (s *Store) collect(ctx context.Context, sql string, args ...any) ([]Record, error) {
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Record])
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return found, nil
}
