package artifact

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	// checkpointID is an expression: artifacts with the same value are one checkpoint.
	checkpointID = `coalesce(attempt || '/' || step, id)`
	// stored is the condition for artifacts that count as checkpoints of the run $1.
	stored = `run_id = $1 AND kind = 'checkpoint' AND sha256 IS NOT NULL`
	// maxMeasured is the maximum number of checkpoints whose values are read at a time.
	maxMeasured = 100
	// arriving is the time in which the metrics of a checkpoint may still arrive.
	arriving = time.Minute
)

// unmeasured is a checkpoint whose value is not known.
type unmeasured struct {
	ID    string
	Step  int64
	After *int64 // step of the checkpoint before, or nil
	Young bool   // its metrics may still arrive
}

func (k *Keeper) unmeasured(ctx context.Context, runID string) ([]*unmeasured, error) {
	due, err := pg.All[unmeasured](k.Pool.Query(ctx, `SELECT id, step, (SELECT max(b.step) FROM artifact b
			WHERE b.run_id = $1 AND b.kind = 'checkpoint' AND b.attempt <= a.attempt AND b.step < a.step) AS after,
			created_at > clock_timestamp() - $3::interval AS young
		FROM artifact a WHERE `+stored+` AND removed_at IS NULL AND best_value IS NULL AND step IS NOT NULL AND `+checkpointID+` <>
			(SELECT `+checkpointID+` FROM artifact WHERE `+stored+` ORDER BY created_at DESC, id DESC LIMIT 1)
		ORDER BY created_at, id LIMIT $2`, runID, maxMeasured, arriving))
	if err != nil {
		return nil, fmt.Errorf("list the checkpoints whose values are not known: %w", err)
	}
	return due, nil
}

func (k *Keeper) setValue(ctx context.Context, id string, value float64) error {
	if _, err := k.Pool.Exec(ctx, `UPDATE artifact SET best_value = $2 WHERE id = $1 AND best_value IS NULL`, id, value); err != nil {
		return fmt.Errorf("store the value of checkpoint %s: %w", id, err)
	}
	return nil
}

// remove implements the rule of Apply in one statement. Of several checkpoints with the best value, the newest is kept. Postgres
// sorts NaN behind all numbers, so NaN is left out.
func (k *Keeper) remove(ctx context.Context, runID string, p Keeping) (Removed, error) {
	var r Removed
	err := k.Pool.QueryRow(ctx, `WITH candidate AS (SELECT id, path, format, created_at, `+checkpointID+` AS checkpoint, best_value AS value,
				kept_at IS NULL AND ($3 = '' OR step IS NULL OR best_value IS NOT NULL) AS free
			FROM artifact WHERE `+stored+` AND removed_at IS NULL),
		checkpoint AS (SELECT checkpoint, max(created_at) AS at, max(id) AS id, max(value) AS value FROM candidate GROUP BY checkpoint),
		kept AS (SELECT id, path FROM candidate WHERE NOT free
				OR checkpoint IN (SELECT checkpoint FROM checkpoint ORDER BY at DESC, id DESC LIMIT $2)
				OR $3 <> '' AND checkpoint IN (SELECT checkpoint FROM checkpoint WHERE value <> 'NaN'
					ORDER BY CASE WHEN $4 THEN -value ELSE value END, at DESC, id DESC LIMIT 1)
				OR id IN (SELECT DISTINCT ON (format) id FROM candidate ORDER BY format, created_at DESC, id DESC)),
		removed AS (UPDATE artifact SET removed_at = clock_timestamp() WHERE removed_at IS NULL AND kept_at IS NULL AND id IN
			(SELECT id FROM candidate WHERE path NOT IN (SELECT path FROM kept)) RETURNING size_bytes)
		SELECT count(*), coalesce(sum(size_bytes), 0)::bigint FROM removed`, runID, p.Last, p.Best, p.Maximize).Scan(&r.Count, &r.Bytes)
	if err != nil {
		return r, fmt.Errorf("remove the checkpoints that run %s does not keep: %w", runID, err)
	}
	return r, nil
}
