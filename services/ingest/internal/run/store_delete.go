package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	// rowKept is how long the row of a deleted run stays without data. A request that began before the deletion cannot
	// create it again in this time.
	rowKept = 10 * time.Minute
	// clearedRows is the maximum number of rows that one step of ClearDeleted deletes.
	clearedRows = 5000
)

// Seal makes it impossible to register a model from a run for as long as a registration may take, because the run is
// about to be deleted. It returns false if a registration may be in progress. A run without a row has no artifacts.
func (e *Expiry) Seal(ctx context.Context, runID string) (bool, error) {
	var registers bool
	err := e.Pool.QueryRow(ctx, `WITH sealed AS (UPDATE run SET sealed_at = clock_timestamp() WHERE id = $1
			AND (artifact_read_at IS NULL OR artifact_read_at < clock_timestamp() - $2::interval) RETURNING id)
		SELECT EXISTS (SELECT FROM run WHERE id = $1 AND id NOT IN (SELECT id FROM sealed))`, runID, registering).Scan(&registers)
	if err != nil {
		return false, fmt.Errorf("seal run %s: %w", runID, err)
	}
	return !registers, nil
}

// Delete hides a run and marks all its data for deletion. Later reports to it are refused.
func (e *Expiry) Delete(ctx context.Context, runID string) error {
	_, err := e.Pool.Exec(ctx, `UPDATE run SET deleted_at = clock_timestamp(), expired_at = coalesce(expired_at, clock_timestamp()), cleared_at = NULL
		WHERE id = $1 AND deleted_at IS NULL`, runID)
	if err != nil {
		return fmt.Errorf("mark run %s for deletion: %w", runID, err)
	}
	return nil
}

// erasing returns the statements that delete all rows of a deleted run except its own, in the form of clearing.
func erasing() []string {
	return append(clearing(),
		`DELETE FROM attempt_step WHERE ctid IN (SELECT ctid FROM attempt_step WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM hparam WHERE ctid IN (SELECT ctid FROM hparam WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM validation_round WHERE ctid IN (SELECT ctid FROM validation_round WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM rank_hparam WHERE ctid IN (SELECT ctid FROM rank_hparam WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM rank_validation_round WHERE ctid IN (SELECT ctid FROM rank_validation_round WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM benchmark_score WHERE ctid IN (SELECT ctid FROM benchmark_score WHERE run_id = $1 LIMIT $2)`,
		`DELETE FROM evaluation WHERE ctid IN (SELECT ctid FROM evaluation WHERE run_id = $1 LIMIT $2)`,
	)
}

// ClearDeleted deletes the data of deleted runs, and then their rows, in bounded steps.
func (e *Expiry) ClearDeleted(ctx context.Context) error {
	for {
		more, err := e.eraseOne(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// eraseOne makes one step for the run that was deleted first. more is false if there is nothing to do.
func (e *Expiry) eraseOne(ctx context.Context) (more bool, err error) {
	err = pg.InTx(ctx, e.Pool, func(ctx context.Context, tx pgx.Tx) error {
		var runID string
		err := tx.QueryRow(ctx, `SELECT id FROM run WHERE deleted_at IS NOT NULL AND (cleared_at IS NULL OR deleted_at < clock_timestamp() - $1::interval)
			ORDER BY deleted_at LIMIT 1 FOR UPDATE SKIP LOCKED`, rowKept).Scan(&runID)
		if more = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("find a deleted run: %w", err)
		}
		left := int64(clearedRows)
		for _, statement := range erasing() {
			tag, err := tx.Exec(ctx, statement, runID, left)
			if err != nil {
				return fmt.Errorf("delete the data of run %s: %w", runID, err)
			}
			if left -= tag.RowsAffected(); left <= 0 {
				return nil
			}
		}
		return forget(ctx, tx, runID)
	})
	return more, err
}

// forget deletes the row of a run without data, or notes that the run has no data if the row must stay for a while.
func forget(ctx context.Context, tx pgx.Tx, runID string) error {
	tag, err := tx.Exec(ctx, `DELETE FROM run WHERE id = $1 AND deleted_at < clock_timestamp() - $2::interval`, runID, rowKept)
	if err == nil && tag.RowsAffected() == 0 {
		_, err = tx.Exec(ctx, `UPDATE run SET cleared_at = clock_timestamp() WHERE id = $1`, runID)
	}
	if err != nil {
		return fmt.Errorf("forget run %s: %w", runID, err)
	}
	return nil
}
