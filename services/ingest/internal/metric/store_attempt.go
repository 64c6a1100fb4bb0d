package metric

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Showing returns a store that reads only the points of one attempt and one rank. With attempt 0, it reads those that newer
// attempts do not hide; with rank nil, those of the lowest rank that has reported a key. A response of the store has at
// most one of parts of the usual size, so that a caller can join the responses of several stores.
func (s *Store) Showing(attempt int32, rank *int32, parts int) *Store {
	shown := *s
	shown.attempt, shown.rank, shown.parts = attempt, rank, parts
	return &shown
}

// MaxBuckets returns the maximum number of buckets of each of n series.
func (s *Store) MaxBuckets(n int) int { return MaxBuckets / s.parts / max(1, n) }

// attemptsOf returns what is shown of a run whose last attempt is given.
func (s *Store) attemptsOf(ctx context.Context, db pg.Querier, runID string, last int32) (attempts, error) {
	shown := attempts{only: s.attempt}
	if last <= 1 || s.attempt > 0 {
		return shown, nil
	}
	bounds, err := boundsOf(ctx, db, []string{runID})
	shown.bounds = bounds[runID]
	return shown, err
}

// boundsOf returns the bounds of those runs that have any. The view attempt_bound has the rule.
func boundsOf(ctx context.Context, db pg.Querier, runs []string) (map[string][]bound, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	rows, err := db.Query(ctx, `SELECT run_id, attempt, hidden_from FROM attempt_bound WHERE run_id = ANY($1) AND hidden_from IS NOT NULL`, runs)
	if err != nil {
		return nil, fmt.Errorf("read the steps of attempts: %w", err)
	}
	found := map[string][]bound{}
	var runID string
	var b bound
	_, err = pgx.ForEachRow(rows, []any{&runID, &b.attempt, &b.low}, func() error {
		found[runID] = append(found[runID], b)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the steps of attempts: %w", err)
	}
	for id := range found {
		found[id] = sealed(found[id])
	}
	return found, nil
}
