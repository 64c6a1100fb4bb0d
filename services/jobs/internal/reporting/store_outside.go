package reporting

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// outsideStore reads and writes runs without a job.
type outsideStore struct{}

// insert stores a new run. It returns a conflict if its owner has maxOutside unfinished ones. They are counted under a
// lock for each owner.
func (outsideStore) insert(ctx context.Context, tx pgx.Tx, r *run.Run) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('jobs outside runs ' || $1, 0))`, r.OwnerID); err != nil {
		return fmt.Errorf("lock the runs of a user: %w", err)
	}
	var unfinished int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM run WHERE owner_id = $1 AND silence_s IS NOT NULL AND ended_at IS NULL`, r.OwnerID).Scan(&unfinished)
	if err != nil {
		return fmt.Errorf("count the unfinished runs of a user: %w", err)
	}
	if unfinished >= maxOutside {
		return fault.New(fault.Conflict, "run_limit", "you have %d unfinished runs without a job, the maximum; end one of them first", unfinished)
	}
	_, err = tx.Exec(ctx, `INSERT INTO run (id, name, owner_id, owner_name, project_id, project, visibility, visibility_version, state,
			attempts, recipe_lock, bindings, recipe_digest, spec_digest, created_at, started_at, heard_at, silence_s, tags, labels)
		VALUES (@id, @name, @owner_id, @owner_name, @project_id, @project, @visibility, @visibility_version, @state,
			@attempts, '{}', '{}', '', '', @created_at, @heard_at, @heard_at, @silence_s, coalesce(@tags, '{}'::text[]),
			coalesce(@labels, '{}'::jsonb))`,
		pgx.StrictNamedArgs{
			"id": r.ID, "name": r.Name, "owner_id": r.OwnerID, "owner_name": r.OwnerName, "project_id": r.ProjectID, "project": r.Project,
			"visibility": r.Visibility, "visibility_version": r.VisibilityVersion, "state": r.State, "attempts": r.Attempts,
			"created_at": r.CreatedAt, "heard_at": r.StartedAt, "silence_s": r.SilenceS, "tags": r.Tags, "labels": r.Labels,
		})
	if err != nil {
		return fmt.Errorf("insert a run without a job: %w", err)
	}
	return nil
}

// lock locks a run without a job. For every other run it returns a 404 error.
func (outsideStore) lock(ctx context.Context, tx pgx.Tx, runID string) (*outside, error) {
	o, err := pg.One[outside](tx.Query(ctx, `SELECT id, state, reported, end_reason, ended_at, silence_s, heard_at, closing FROM run
		WHERE id = $1 AND silence_s IS NOT NULL FOR UPDATE`, runID))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("run", runID)
	}
	if err != nil {
		return nil, fmt.Errorf("lock run %s: %w", runID, err)
	}
	return o, nil
}

// closing returns the decided end of a run without a job that has not ended, or nil if there is none.
func (outsideStore) closing(ctx context.Context, q pg.Querier, runID string) (*job.Closing, error) {
	var c *job.Closing
	err := q.QueryRow(ctx, `SELECT closing FROM run WHERE id = $1 AND silence_s IS NOT NULL AND ended_at IS NULL`, runID).Scan(&c)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nil means that no end is decided
	}
	if err != nil {
		return nil, fmt.Errorf("read the decided end of run %s: %w", runID, err)
	}
	return c, nil
}

// save writes a locked run that was running.
func (outsideStore) save(ctx context.Context, tx pgx.Tx, o *outside) error {
	tag, err := tx.Exec(ctx, `UPDATE run SET state = $2, reported = $3, end_reason = $4, ended_at = $5, closing = $7
		WHERE id = $1 AND state = $6 AND ended_at IS NULL`, o.ID, o.State, o.Reported, o.EndReason, o.EndedAt, job.Running, o.Closing)
	if err != nil {
		return fmt.Errorf("save run %s: %w", o.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "lifecycle", "lifecycle: run %s has ended", o.ID)
	}
	return nil
}
