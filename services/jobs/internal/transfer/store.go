package transfer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// owned is a job to be transferred.
type owned struct {
	ID    string
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

func lockJobs(ctx context.Context, tx pgx.Tx, userID string) ([]owned, error) {
	rows, err := tx.Query(ctx, `SELECT id, ended_at IS NOT NULL FROM job WHERE owner_id = $1 ORDER BY id FOR UPDATE`, userID)
	if err != nil {
		return nil, fmt.Errorf("lock the jobs of a user: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[owned])
	if err != nil {
		return nil, fmt.Errorf("lock the jobs of a user: %w", err)
	}
	return jobs, nil
}

// heldBy returns the GPUs that the attempts of a user's jobs hold. The caller has locked the jobs.
func heldBy(ctx context.Context, tx pgx.Tx, userID string) (gpus int, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(sum(a.held), 0) FROM attempt a JOIN job j ON j.id = a.job_id WHERE j.owner_id = $1`, userID).Scan(&gpus)
	if err != nil {
		return 0, fmt.Errorf("count the GPUs that a user's jobs hold: %w", err)
	}
	return gpus, nil
}

// moveRows changes the owner of jobs and runs, and returns the runs.
func moveRows(ctx context.Context, tx pgx.Tx, from string, to Person) ([]string, error) {
	if _, err := tx.Exec(ctx, `UPDATE job SET owner_id = $2, owner_name = $3 WHERE owner_id = $1`, from, to.ID, to.Name); err != nil {
		return nil, fmt.Errorf("transfer jobs: %w", err)
	}
	rows, err := tx.Query(ctx, `UPDATE run SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 RETURNING id`, from, to.ID, to.Name)
	if err != nil {
		return nil, fmt.Errorf("transfer runs: %w", err)
	}
	runs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("transfer runs: %w", err)
	}
	return runs, nil
}

// moveWorks changes the owner of work items, including engines, whose deployments the registry transfers.
func moveWorks(ctx context.Context, tx pgx.Tx, from, to string) error {
	if _, err := tx.Exec(ctx, `UPDATE work SET owner_id = $2 WHERE owner_id = $1`, from, to); err != nil {
		return fmt.Errorf("transfer work items: %w", err)
	}
	return nil
}
