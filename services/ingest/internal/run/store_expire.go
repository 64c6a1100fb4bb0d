package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// registering is the longest time between reading an artifact and registering a model from it.
const registering = 15 * time.Minute

// Expiry marks the data of runs as expired and deletes expired data. What remains of a run is its row, its
// hyperparameters and its results: the averages of validation rounds, scores and the head of its evaluation.
type Expiry struct{ Pool *pgxpool.Pool }

// HoldForModel keeps the data of a run for a while, because a model is about to be registered from one of its
// artifacts. It returns an Absent fault if the run has no data any more.
func (e *Expiry) HoldForModel(ctx context.Context, runID, artifactID string) error {
	tag, err := e.Pool.Exec(ctx, `UPDATE run SET artifact_read_at = clock_timestamp() WHERE id = $1 AND expired_at IS NULL
		AND (sealed_at IS NULL OR sealed_at < clock_timestamp() - $2::interval)`, runID, registering)
	if err != nil {
		return fmt.Errorf("keep the data of a run: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.Absentf("artifact", artifactID)
	}
	return nil
}

// Expire marks the data of closed runs as expired and returns the runs whose data is expired. Runs without a row have
// no data and count as expired.
func (e *Expiry) Expire(ctx context.Context, runs []string) ([]string, error) {
	_, err := e.Pool.Exec(ctx, `UPDATE run SET expired_at = clock_timestamp() WHERE id = ANY($1) AND expired_at IS NULL AND closed_at IS NOT NULL
		AND (artifact_read_at IS NULL OR artifact_read_at < clock_timestamp() - $2::interval)`, runs, registering)
	if err != nil {
		return nil, fmt.Errorf("expire the data of runs: %w", err)
	}
	rows, err := e.Pool.Query(ctx, `SELECT g FROM unnest($1::text[]) g LEFT JOIN run r ON r.id = g WHERE r.id IS NULL OR r.expired_at IS NOT NULL`, runs)
	if err != nil {
		return nil, fmt.Errorf("list the runs without data: %w", err)
	}
	expired, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the runs without data: %w", err)
	}
	return expired, nil
}

// clearing returns one statement for each table. Each statement deletes rows of an expired run. The row that the compactor
// locks comes first, so that it adds nothing afterwards. Artifacts come last, so that their objects stay referenced as long
// as possible. Rows of metrics come before the segments and blocks to which they may be moved at the same time. Segments
// come before their blocks, because a segment must be complete.
func clearing() []string {
	return []string{
		`DELETE FROM metric_hot WHERE ctid IN (SELECT ctid FROM metric_hot WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM metric_batch WHERE ctid IN (SELECT ctid FROM metric_batch WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM metric_segment WHERE ctid IN (SELECT ctid FROM metric_segment WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM metric_block WHERE ctid IN (SELECT ctid FROM metric_block WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM metric_summary WHERE ctid IN (SELECT ctid FROM metric_summary WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM metric_key WHERE ctid IN (SELECT ctid FROM metric_key WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM log_chunk WHERE ctid IN (SELECT ctid FROM log_chunk WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM log_tail WHERE ctid IN (SELECT ctid FROM log_tail WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM sample WHERE ctid IN (SELECT ctid FROM sample WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM validation_chunk WHERE ctid IN (SELECT ctid FROM validation_chunk WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM rank_sample WHERE ctid IN (SELECT ctid FROM rank_sample WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM rank_validation_chunk WHERE ctid IN (SELECT ctid FROM rank_validation_chunk WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM hardware_batch WHERE ctid IN (SELECT ctid FROM hardware_batch WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM hardware_series WHERE ctid IN (SELECT ctid FROM hardware_series WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM rollout WHERE ctid IN (SELECT ctid FROM rollout WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM record WHERE ctid IN (SELECT ctid FROM record WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM hparam_history WHERE ctid IN (SELECT ctid FROM hparam_history WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM request_digest WHERE ctid IN (SELECT ctid FROM request_digest WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM ahead WHERE ctid IN (SELECT ctid FROM ahead WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM mark WHERE ctid IN (SELECT ctid FROM mark WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM artifact WHERE ctid IN (SELECT ctid FROM artifact WHERE run_id = $1 LIMIT $2)`,
	}
}

// Clear deletes at most limit rows of the data of expired runs and returns their number.
func (e *Expiry) Clear(ctx context.Context, _ time.Time, limit int) (int64, error) {
	var total int64
	for total < int64(limit) {
		found := false
		err := pg.InTx(ctx, e.Pool, func(ctx context.Context, tx pgx.Tx) error {
			n, one, err := clearOne(ctx, tx, limit-int(total))
			if err == nil {
				total, found = total+n, one
			}
			return err
		})
		if err != nil || !found {
			return total, err
		}
	}
	return total, nil
}

// clearOne deletes rows of the run that expired first. found is false if no run has expired data.
func clearOne(ctx context.Context, tx pgx.Tx, limit int) (n int64, found bool, err error) {
	var runID string
	err = tx.QueryRow(ctx, `SELECT id FROM run WHERE expired_at IS NOT NULL AND cleared_at IS NULL ORDER BY expired_at LIMIT 1
		FOR NO KEY UPDATE SKIP LOCKED`).Scan(&runID)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("find a run with expired data: %w", err)
	}
	for _, statement := range clearing() {
		tag, err := tx.Exec(ctx, statement, runID, int64(limit)-n)
		if err != nil {
			return 0, false, fmt.Errorf("delete the data of run %s: %w", runID, err)
		}
		if n += tag.RowsAffected(); n >= int64(limit) {
			return n, true, nil
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE run SET cleared_at = clock_timestamp() WHERE id = $1`, runID); err != nil {
		return 0, false, fmt.Errorf("record that run %s has no data: %w", runID, err)
	}
	return n, true, nil
}
