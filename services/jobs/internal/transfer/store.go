package transfer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// owned is a job to be transferred, with its run.
type owned struct {
	ID    string
	RunID string
	Ended bool
}

func count(ctx context.Context, q pg.Querier, userID string) (c Counts, err error) {
	err = q.QueryRow(ctx, `SELECT (SELECT count(*) FROM job WHERE owner_id = $1), (SELECT count(*) FROM run WHERE owner_id = $1)`, userID).
		Scan(&c.Jobs, &c.Runs)
	if err != nil {
		return c, fmt.Errorf("count the jobs and runs of a user: %w", err)
	}
	return c, nil
}

// The jobs of one step. The jobs that hold GPUs are few, because the quota limits them.
const (
	holdingJobs = `SELECT id, run_id, ended_at IS NOT NULL FROM job WHERE owner_id = $1
		AND EXISTS (SELECT FROM attempt a WHERE a.job_id = job.id AND a.held > 0) ORDER BY id FOR UPDATE`
	nextJobs = `SELECT id, run_id, ended_at IS NOT NULL FROM job WHERE owner_id = $1
		AND id IN (SELECT id FROM job WHERE owner_id = $1 ORDER BY created_at DESC, id DESC LIMIT 500) ORDER BY id FOR UPDATE`
)

func lockJobs(ctx context.Context, tx pgx.Tx, which, userID string) ([]owned, error) {
	rows, err := tx.Query(ctx, which, userID)
	if err != nil {
		return nil, fmt.Errorf("lock the jobs of a user: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[owned])
	if err != nil {
		return nil, fmt.Errorf("lock the jobs of a user: %w", err)
	}
	return jobs, nil
}

// heldBy returns the GPUs that the attempts of jobs hold. The caller has locked the jobs.
func heldBy(ctx context.Context, tx pgx.Tx, jobs []string) (gpus int, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(sum(held), 0) FROM attempt WHERE job_id = ANY($1)`, jobs).Scan(&gpus)
	if err != nil {
		return 0, fmt.Errorf("count the GPUs that jobs hold: %w", err)
	}
	return gpus, nil
}

// moveJobs changes the owner of locked jobs.
func moveJobs(ctx context.Context, tx pgx.Tx, jobs []string, to Person) error {
	if _, err := tx.Exec(ctx, `UPDATE job SET owner_id = $2, owner_name = $3 WHERE id = ANY($1)`, jobs, to.ID, to.Name); err != nil {
		return fmt.Errorf("transfer jobs: %w", err)
	}
	return nil
}

// moveRuns gives each of the runs to the new owner, unless it no longer belongs to the former owner. It returns the
// runs that it has moved.
func moveRuns(ctx context.Context, tx pgx.Tx, runs []string, from string, to Person) ([]string, error) {
	rows, err := tx.Query(ctx, `UPDATE run SET owner_id = $3, owner_name = $4 WHERE id = ANY($1) AND owner_id = $2 RETURNING id`,
		runs, from, to.ID, to.Name)
	return ids(rows, err, "transfer runs")
}

// nextRuns returns up to 500 runs of a user.
func nextRuns(ctx context.Context, tx pgx.Tx, userID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT id FROM run WHERE owner_id = $1 ORDER BY id LIMIT 500`, userID)
	return ids(rows, err, "list the runs of a user")
}

func ids(rows pgx.Rows, err error, what string) ([]string, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

// moveWorks changes the owner of the work items of jobs.
func moveWorks(ctx context.Context, tx pgx.Tx, jobs []string, to string) error {
	if _, err := tx.Exec(ctx, `UPDATE work SET owner_id = $2 WHERE kind = 'attempt' AND job_id = ANY($1)`, jobs, to); err != nil {
		return fmt.Errorf("transfer work items: %w", err)
	}
	return nil
}

// moveEngines changes the owner of up to 500 engines of a user and returns their number. The registry transfers the
// deployments of the engines.
func moveEngines(ctx context.Context, q pg.Querier, from, to string) (int64, error) {
	tag, err := q.Exec(ctx, `UPDATE work SET owner_id = $2 WHERE owner_id = $1 AND id IN (
		SELECT id FROM work WHERE kind = 'engine' AND owner_id = $1 ORDER BY id LIMIT 500 FOR UPDATE)`, from, to)
	if err != nil {
		return 0, fmt.Errorf("transfer engines: %w", err)
	}
	return tag.RowsAffected(), nil
}
