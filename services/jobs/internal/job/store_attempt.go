package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

const attemptColumns = `id, job_id, number, state, node_id, held, end_reason, message, exit_code, phase,
	reported_end, reported_message, created_at, starting_at, reported_starting_at, executor_running_at,
	running_at, ended_at, listens_at, resumed_from`

// Attempt returns one attempt of a job.
func (s *Store) Attempt(ctx context.Context, q pg.Querier, jobID string, number int) (*Attempt, error) {
	a, err := pg.One[Attempt](q.Query(ctx, `SELECT `+attemptColumns+` FROM attempt WHERE job_id = $1 AND number = $2`,
		jobID, number))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("attempt", fmt.Sprintf("%s/%d", jobID, number))
	}
	if err != nil {
		return nil, fmt.Errorf("load attempt: %w", err)
	}
	return a, nil
}

// Attempts returns the attempts of a job, oldest first.
func (s *Store) Attempts(ctx context.Context, q pg.Querier, jobID string, p request.Page) ([]*Attempt, error) {
	rows, err := q.Query(ctx, `SELECT `+attemptColumns+` FROM attempt WHERE job_id = $1 ORDER BY number LIMIT $2 OFFSET $3`,
		jobID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	attempts, err := pg.All[Attempt](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	return attempts, nil
}

// InsertAttempt stores a new attempt of a locked job.
func (s *Store) InsertAttempt(ctx context.Context, tx pgx.Tx, a *Attempt) error {
	_, err := tx.Exec(ctx, `INSERT INTO attempt (id, job_id, number, state, node_id, held, created_at, resumed_from)
		VALUES (@id, @job_id, @number, @state, @node_id, @held, @created_at, @resumed_from)`, pgx.StrictNamedArgs{
		"id": a.ID, "job_id": a.JobID, "number": a.Number, "state": a.State, "node_id": a.NodeID, "held": a.Held,
		"created_at": a.CreatedAt, "resumed_from": a.ResumedFrom,
	})
	if err != nil {
		return fmt.Errorf("insert attempt: %w", err)
	}
	return nil
}

// SaveAttempt writes a changed attempt of a locked job. An attempt that has ended is a conflict.
func (s *Store) SaveAttempt(ctx context.Context, tx pgx.Tx, a *Attempt) error {
	tag, err := tx.Exec(ctx, `UPDATE attempt SET state = @state, end_reason = @end_reason, message = @message,
			exit_code = @exit_code, phase = @phase, reported_end = @reported_end, reported_message = @reported_message,
			starting_at = @starting_at, reported_starting_at = @reported_starting_at, executor_running_at = @executor_running_at,
			running_at = @running_at, ended_at = @ended_at
		WHERE id = @id AND ended_at IS NULL`, pgx.StrictNamedArgs{
		"id": a.ID, "state": a.State, "end_reason": a.EndReason, "message": a.Message, "exit_code": a.ExitCode, "phase": a.Phase,
		"reported_end": a.ReportedEnd, "reported_message": a.ReportedMessage, "starting_at": a.StartingAt,
		"reported_starting_at": a.ReportedStartingAt, "executor_running_at": a.ExecutorRunningAt, "running_at": a.RunningAt,
		"ended_at": a.EndedAt,
	})
	if err != nil {
		return fmt.Errorf("save attempt: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "attempt_over", "attempt %d has ended", a.Number)
	}
	return nil
}

// Release clears the GPUs that an attempt holds and returns their number. A repeated call returns 0.
func (s *Store) Release(ctx context.Context, tx pgx.Tx, attemptID string) (int, error) {
	var held int
	err := tx.QueryRow(ctx, `WITH before AS (SELECT id, held FROM attempt WHERE id = $1 AND held > 0 FOR UPDATE)
		UPDATE attempt SET held = 0 FROM before WHERE attempt.id = before.id RETURNING before.held`, attemptID).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("release the GPUs of an attempt: %w", err)
	}
	return held, nil
}

// DeleteAttempt deletes an attempt that never started.
func (s *Store) DeleteAttempt(ctx context.Context, tx pgx.Tx, a *Attempt) error {
	if _, err := tx.Exec(ctx, `DELETE FROM attempt WHERE id = $1 AND starting_at IS NULL AND ended_at IS NULL`, a.ID); err != nil {
		return fmt.Errorf("delete attempt: %w", err)
	}
	return nil
}

// MarkListening records when an attempt's training first polled for signals. It does not lock the job: frequent polls
// must not wait for state changes.
func (s *Store) MarkListening(ctx context.Context, q pg.Querier, jobID string, number int) error {
	_, err := q.Exec(ctx, `UPDATE attempt SET listens_at = clock_timestamp()
		WHERE job_id = $1 AND number = $2 AND listens_at IS NULL AND ended_at IS NULL`, jobID, number)
	if err != nil {
		return fmt.Errorf("record that an attempt listens for signals: %w", err)
	}
	return nil
}
