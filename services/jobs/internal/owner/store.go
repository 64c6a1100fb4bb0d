package owner

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// owned is a job that moves.
type owned struct {
	ID    string
	Ended bool
}

func count(ctx context.Context, q pg.Querier, userID string) (c Counts, err error) {
	err = q.QueryRow(ctx, `SELECT (SELECT count(*) FROM job WHERE owner_id = $1), (SELECT count(*) FROM run WHERE owner_id = $1)`, userID).
		Scan(&c.Jobs, &c.Runs)
	if err != nil {
		return c, fmt.Errorf("count what a person owns: %w", err)
	}
	return c, nil
}

func lockJobs(ctx context.Context, tx pgx.Tx, userID string) ([]owned, error) {
	rows, err := tx.Query(ctx, `SELECT id, ended_at IS NOT NULL FROM job WHERE owner_id = $1 ORDER BY id FOR UPDATE`, userID)
	if err != nil {
		return nil, fmt.Errorf("lock the jobs of a person: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[owned])
	if err != nil {
		return nil, fmt.Errorf("lock the jobs of a person: %w", err)
	}
	return jobs, nil
}

// heldBy is what the attempts of a person's jobs hold; the jobs are locked.
func heldBy(ctx context.Context, tx pgx.Tx, userID string) (gpus int, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(sum(a.held), 0) FROM attempt a JOIN job j ON j.id = a.job_id WHERE j.owner_id = $1`, userID).Scan(&gpus)
	if err != nil {
		return 0, fmt.Errorf("count what a person's jobs hold: %w", err)
	}
	return gpus, nil
}

// moveRows gives jobs and runs away, and answers the runs.
func moveRows(ctx context.Context, tx pgx.Tx, from string, to Person) ([]string, error) {
	if _, err := tx.Exec(ctx, `UPDATE job SET owner_id = $2, owner_name = $3 WHERE owner_id = $1`, from, to.ID, to.Name); err != nil {
		return nil, fmt.Errorf("give jobs away: %w", err)
	}
	rows, err := tx.Query(ctx, `UPDATE run SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 RETURNING id`, from, to.ID, to.Name)
	if err != nil {
		return nil, fmt.Errorf("give runs away: %w", err)
	}
	runs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("give runs away: %w", err)
	}
	return runs, nil
}

// moveWorks gives works away, the engines' too: their deployments move in the registry.
func moveWorks(ctx context.Context, tx pgx.Tx, from, to string) error {
	if _, err := tx.Exec(ctx, `UPDATE work SET owner_id = $2 WHERE owner_id = $1`, from, to); err != nil {
		return fmt.Errorf("give works away: %w", err)
	}
	return nil
}
