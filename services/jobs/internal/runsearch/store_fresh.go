package runsearch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// running returns the first runs after an id that have started and not ended, sorted by id, with what their copies contain, and
// the time at which they were read.
func (Store) running(ctx context.Context, q pg.Querier, after string) (known []*ingestpeerv1.SummarizedRun, now time.Time, err error) {
	rows, err := q.Query(ctx, `SELECT r.id, coalesce(s.rows, 0), coalesce(s.shown, ''), clock_timestamp() FROM run r LEFT JOIN run_summary s ON s.run_id = r.id
		WHERE NOT r.summary_final AND r.data_expired_at IS NULL AND r.started_at IS NOT NULL AND r.ended_at IS NULL AND r.id > $1
		ORDER BY r.id LIMIT $2`, after, maxRefreshed)
	if err != nil {
		return nil, now, fmt.Errorf("find the runs to refresh: %w", err)
	}
	var id, shown string
	var n int64
	err = forEach(rows, nil, []any{&id, &n, &shown, &now}, func() {
		known = append(known, &ingestpeerv1.SummarizedRun{RunId: id, Rows: n, Shown: shown})
	})
	if err != nil {
		return nil, now, fmt.Errorf("find the runs to refresh: %w", err)
	}
	return known, now, nil
}

// saveDeltas adds new points to the copies of runs. It leaves out the runs whose copies have changed since they were read, and
// those with a point that may replace an earlier one, which it returns.
func (Store) saveDeltas(ctx context.Context, tx pgx.Tx, d *deltas) (replaced []string, err error) {
	if len(d.runs) == 0 {
		return nil, nil
	}
	current, err := lockSummaries(ctx, tx, d)
	if err != nil {
		return nil, err
	}
	d.keep(func(runID string) bool { return current[runID] })
	rows, err := tx.Query(ctx, `SELECT DISTINCT d.run_id FROM unnest($1::text[], $2::text[], $3::bigint[]) d(run_id, key, first_step)
		JOIN run_metric m ON m.run_id = d.run_id AND m.key = d.key WHERE m.last_step IS NULL OR d.first_step <= m.last_step`,
		d.metricRuns, d.keys, d.firstStep)
	if err != nil {
		return nil, fmt.Errorf("find replaced metrics: %w", err)
	}
	if replaced, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, fmt.Errorf("find replaced metrics: %w", err)
	}
	if len(replaced) > 0 {
		d.keep(func(runID string) bool { return !slices.Contains(replaced, runID) })
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE run_metric m SET last = d.last, last_step = d.last_step, min = least(m.min, d.low), max = greatest(m.max, d.high),
			best = CASE r.goals ->> m.key WHEN 'minimize' THEN least(m.min, d.low) WHEN 'maximize' THEN greatest(m.max, d.high) END
		FROM unnest($1::text[], $2::text[], $3::double precision[], $4::bigint[], $5::double precision[], $6::double precision[])
			d(run_id, key, last, last_step, low, high), run r
		WHERE m.run_id = d.run_id AND m.key = d.key AND r.id = d.run_id`, d.metricRuns, d.keys, d.last, d.lastStep, d.min, d.max)
	batch.Queue(`UPDATE run_summary s SET position = greatest(s.position, d.position), rows = d.rows, as_of = greatest(s.as_of, $4)
		FROM unnest($1::text[], $2::bigint[], $3::bigint[]) d(run_id, position, rows) WHERE s.run_id = d.run_id`, d.runs, d.positions, d.rows, d.now)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("refresh the metrics of runs: %w", err)
	}
	return replaced, nil
}

// lockSummaries locks the copies that the new points continue, and returns their runs.
func lockSummaries(ctx context.Context, tx pgx.Tx, d *deltas) (map[string]bool, error) {
	rows, err := tx.Query(ctx, `SELECT s.run_id FROM run_summary s JOIN unnest($1::text[], $2::bigint[], $3::text[]) d(run_id, rows, shown)
			ON s.run_id = d.run_id AND s.rows = d.rows AND s.shown = d.shown ORDER BY s.run_id FOR UPDATE OF s`, d.runs, d.knownRows, d.shown)
	if err != nil {
		return nil, fmt.Errorf("lock the summaries of runs: %w", err)
	}
	current := map[string]bool{}
	var id string
	if err := forEach(rows, nil, []any{&id}, func() { current[id] = true }); err != nil {
		return nil, fmt.Errorf("lock the summaries of runs: %w", err)
	}
	return current, nil
}
