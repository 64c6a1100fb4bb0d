package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Store implements Rows with the database.
type Store struct {
	Pool  pg.Querier
	Clock clock.Clock
}

// Find implements Rows. A job has exactly one run.
func (s *Store) Find(ctx context.Context, id string) (*Owner, error) {
	var o Owner
	err := s.Pool.QueryRow(ctx, `SELECT id, job_id, owner_id, project_id, project, visibility FROM run
		WHERE id = $1 AND deleted_at IS NULL
		UNION ALL SELECT id, job_id, owner_id, project_id, project, visibility FROM run WHERE job_id = $1 AND deleted_at IS NULL
		LIMIT 1`, id).
		Scan(&o.RunID, &o.JobID, &o.OwnerID, &o.ProjectID, &o.Project, &o.Visibility)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nil means that the run has no row
	}
	if err != nil {
		return nil, fmt.Errorf("find a run: %w", err)
	}
	return &o, nil
}

// Upsert implements Rows. It inserts the row of a run, or updates its owner and its project. A response of the jobs
// service may be outdated. Therefore the former owner of a transferred run does not become its owner again, and an
// older version of a project's visibility does not replace a newer version.
func (s *Store) Upsert(ctx context.Context, o *Owner) error {
	var goals any // NULL if there are none
	if len(o.Goals) > 0 {
		goals = o.Goals
	}
	_, err := s.Pool.Exec(ctx, `INSERT INTO run AS r (id, job_id, owner_id, project_id, project, visibility, visibility_version, created_at, goals)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (id) DO UPDATE SET job_id = $2, project_id = $4, project = $5,
			visibility = CASE WHEN r.project_id = $4 AND r.visibility_version > excluded.visibility_version
				THEN r.visibility ELSE excluded.visibility END,
			visibility_version = CASE WHEN r.project_id = $4 AND r.visibility_version > excluded.visibility_version
				THEN r.visibility_version ELSE excluded.visibility_version END,
			owner_id = CASE WHEN r.former_owner_id = $3 THEN r.owner_id ELSE $3 END, goals = coalesce(r.goals, excluded.goals)
		WHERE (r.job_id, r.owner_id, r.project_id, r.project, r.visibility, r.visibility_version)
			IS DISTINCT FROM ($2, $3, $4, $5, excluded.visibility, excluded.visibility_version) OR r.goals IS NULL AND excluded.goals IS NOT NULL`,
		o.RunID, o.JobID, o.OwnerID, o.ProjectID, o.Project, o.Visibility, o.VisibilityVersion, s.Clock.Now(), goals)
	if err != nil {
		return fmt.Errorf("store run %s: %w", o.RunID, err)
	}
	return nil
}

// Goals returns the goals of runs, by their ids. Runs without goals are left out.
func (s *Store) Goals(ctx context.Context, runs []string) (map[string]Goals, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, goals FROM run WHERE id = ANY($1) AND goals IS NOT NULL`, runs)
	if err != nil {
		return nil, fmt.Errorf("load the goals of runs: %w", err)
	}
	found := map[string]Goals{}
	var id string
	var goals Goals
	_, err = pgx.ForEachRow(rows, []any{&id, &goals}, func() error {
		found[id], goals = goals, nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load the goals of runs: %w", err)
	}
	return found, nil
}

// Progress returns the progress of a run, or an Absent fault if the run has no row.
func (s *Store) Progress(ctx context.Context, runID string) (Progress, error) {
	var p Progress
	var state *string
	err := s.Pool.QueryRow(ctx, `SELECT id, job_id, owner_id, project_id, project, visibility, attempt, line_seq, batch_seq, closed_at, ended_at, state,
			(SELECT count(*) FROM attempt_step a WHERE a.run_id = run.id)
		FROM run WHERE id = $1 AND deleted_at IS NULL`, runID).
		Scan(&p.Owner.RunID, &p.Owner.JobID, &p.Owner.OwnerID, &p.Owner.ProjectID, &p.Owner.Project, &p.Owner.Visibility,
			&p.Attempt, &p.LineSeq, &p.BatchSeq, &p.ClosedAt, &p.EndedAt, &state, &p.Resumed)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, fault.Absentf("run", runID)
	}
	if err != nil {
		return p, fmt.Errorf("load the progress of a run: %w", err)
	}
	if state != nil {
		p.State = *state
	}
	return p, nil
}

// Close marks an open run as closed and reports whether the run was open. The caller holds the lock on the run's row.
func Close(ctx context.Context, tx pgx.Tx, runID, state string, endedAt *time.Time, now time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE run SET closed_at = $2, state = $3, ended_at = $4 WHERE id = $1 AND closed_at IS NULL`,
		runID, now, state, endedAt)
	if err != nil {
		return false, fmt.Errorf("close a run: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
