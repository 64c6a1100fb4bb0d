package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Filter selects jobs. Empty fields match every job.
type Filter struct {
	State   State
	Project string // key or ID
	Owner   string // user name
	Labels  []string
	Text    string
	// CreatedFrom and CreatedTo limit the time of creation: from the first on, before the second.
	CreatedFrom, CreatedTo *time.Time
	// AfterTime and After are the time and the ID of a position in the list: only the jobs that follow it are listed.
	AfterTime time.Time
	After     string
}

// selection returns the condition for the filters other than After.
func (f *Filter) selection(scope authn.Scope) (*db.Selection, error) {
	s := db.Select(scope)
	s.Equal(`state`, string(f.State))
	if strings.HasPrefix(f.Project, string(id.Project)+"_") { // a key has no underscore
		s.Equal(`project_id`, f.Project)
	} else {
		s.Equal(`project`, f.Project)
	}
	s.Equal(`owner_name`, f.Owner)
	if f.CreatedFrom != nil {
		s.And(`created_at >= `, s.Arg(*f.CreatedFrom))
	}
	if f.CreatedTo != nil {
		s.And(`created_at < `, s.Arg(*f.CreatedTo))
	}
	if f.Text != "" {
		name := s.Arg(db.Anywhere(f.Text))
		exact := s.Arg(f.Text)
		s.And(`(lower(name) LIKE lower(`, name, `) OR id = `, exact, ` OR run_id = `, exact, `)`)
	}
	return s, f.labels(s)
}

// labels adds the label filters: name=value, or a name that matches any value.
func (f *Filter) labels(s *db.Selection) error {
	for _, l := range f.Labels {
		matches, err := s.Label(l)
		if err != nil {
			return err
		}
		s.And(matches)
	}
	return nil
}

// List returns the jobs that callers with this scope may see and that match the filter, newest first. It omits their
// templates.
func (s *Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f Filter, p request.Page) ([]*Job, error) {
	chosen, err := f.selection(scope)
	if err != nil {
		return nil, err
	}
	if f.After != "" {
		chosen.And(`(created_at, id) < (`, chosen.Arg(f.AfterTime), `, `, chosen.Arg(f.After), `)`)
	}
	limit, offset := chosen.Arg(p.FetchLimit()), chosen.Arg(p.Offset)
	rows, err := q.Query(ctx, `SELECT `+shownColumns+` FROM job WHERE `+chosen.Where+
		` ORDER BY created_at DESC, id DESC LIMIT `+limit+` OFFSET `+offset, chosen.Args...)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	found, err := pg.All[row](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	jobs := make([]*Job, len(found))
	for i, r := range found {
		jobs[i] = r.job()
	}
	return jobs, nil
}

const attemptColumns = `id, job_id, number, state, node_id, held, end_reason, message, exit_code, phase,
	reported_end, reported_message, created_at, starting_at, reported_starting_at, executor_running_at,
	running_at, ended_at, listens_at, resumed_from, closing, collected, heard_signal, resumed_step, batch_id, batch_nodes,
	coalesce((SELECT w.detail FROM work w WHERE attempt.ended_at IS NULL AND w.kind = 'attempt' AND w.job_id = attempt.job_id
		AND w.attempt = attempt.number AND w.detail <> '' ORDER BY w.rank LIMIT 1), '') AS doing`

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

// Closing returns the decided end of the current attempt of a run's job, or nil if there is none.
func (s *Store) Closing(ctx context.Context, q pg.Querier, runID string) (*Closing, error) {
	var c *Closing
	err := q.QueryRow(ctx, `SELECT a.closing FROM job j JOIN attempt a ON a.job_id = j.id AND a.number = j.attempt
		WHERE j.run_id = $1 AND a.ended_at IS NULL`, runID).Scan(&c)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nil means that no end is decided
	}
	if err != nil {
		return nil, fmt.Errorf("read the decided end of a run: %w", err)
	}
	return c, nil
}

// InsertAttempt stores a new attempt of a locked job.
func (s *Store) InsertAttempt(ctx context.Context, tx pgx.Tx, a *Attempt) error {
	_, err := tx.Exec(ctx, `INSERT INTO attempt (id, job_id, number, state, node_id, held, created_at, resumed_from, resumed_step)
		VALUES (@id, @job_id, @number, @state, @node_id, @held, @created_at, @resumed_from, @resumed_step)`, pgx.StrictNamedArgs{
		"id": a.ID, "job_id": a.JobID, "number": a.Number, "state": a.State, "node_id": a.NodeID, "held": a.Held,
		"created_at": a.CreatedAt, "resumed_from": a.ResumedFrom, "resumed_step": a.ResumedStep,
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
			running_at = @running_at, ended_at = @ended_at, closing = @closing, collected = @collected,
			batch_id = @batch_id, batch_nodes = @batch_nodes
		WHERE id = @id AND ended_at IS NULL`, pgx.StrictNamedArgs{
		"id": a.ID, "state": a.State, "end_reason": a.EndReason, "message": a.Message, "exit_code": a.ExitCode, "phase": a.Phase,
		"reported_end": a.ReportedEnd, "reported_message": a.ReportedMessage, "starting_at": a.StartingAt,
		"reported_starting_at": a.ReportedStartingAt, "executor_running_at": a.ExecutorRunningAt, "running_at": a.RunningAt,
		"ended_at": a.EndedAt, "closing": a.Closing, "collected": a.Collected, "batch_id": a.BatchID,
		"batch_nodes": a.BatchNodes,
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

// MarkListening records when an attempt's training first polled for signals, and the newest signal that it has received.
// It does not lock the job: frequent polls must not wait for state changes.
func (s *Store) MarkListening(ctx context.Context, q pg.Querier, jobID string, number int, signalID string) error {
	_, err := q.Exec(ctx, `UPDATE attempt SET listens_at = coalesce(listens_at, clock_timestamp()), heard_signal = $3
		WHERE job_id = $1 AND number = $2 AND (listens_at IS NULL OR heard_signal <> $3) AND ended_at IS NULL`, jobID, number, signalID)
	if err != nil {
		return fmt.Errorf("record that an attempt listens for signals: %w", err)
	}
	return nil
}

// ForgetDrain deletes the record that a drain requested a checkpoint from the job.
func (*Store) ForgetDrain(ctx context.Context, q pg.Querier, jobID string) error {
	if _, err := q.Exec(ctx, `DELETE FROM drain_pause WHERE job_id = $1`, jobID); err != nil {
		return fmt.Errorf("forget the checkpoint request of a drain: %w", err)
	}
	return nil
}

// ProtectedDatasets returns the ids of the protected datasets that a run read.
func (*Store) ProtectedDatasets(ctx context.Context, q pg.Querier, runID string) (ids []string, err error) {
	if err := q.QueryRow(ctx, `SELECT protected_datasets FROM run WHERE id = $1`, runID).Scan(&ids); err != nil {
		return nil, fmt.Errorf("look up the protected datasets of run %s: %w", runID, err)
	}
	return ids, nil
}
