package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// SubjectKind is the subject kind of jobs in the event and audit tables.
const SubjectKind = "job"

// Store reads and writes jobs. Every write except MarkListening needs a transaction.
type Store struct {
	Events *event.Log
	Closer Closer
}

// Closer queues the closing of a run's streams, in the transaction that ends the job.
type Closer interface {
	CloseRun(ctx context.Context, tx pgx.Tx, runID string) error
}

// The columns of a job. Only the scheduler needs the template, which can be large, so only Lock reads it.
const (
	shownColumns  = jobColumns + `, ''::bytea AS template`
	lockedColumns = jobColumns + `, template`
)

const jobColumns = `id, run_id, name, owner_id, owner_name, project_id, project, team_id, visibility, labels, priority,
	spec, spec_digest, pools, gpus, retry_max, running_s, starting_s, queued_s, own_command, created_at, seq,
	state, end_reason, message, warnings, attempt, stop_reason,
	queue_position, queue_reason, queue_detail, queued_at, not_before,
	scheduled_at, starting_at, executor_running_at, running_at, ended_at,
	retries, retry_on, retry_codes, retry_backoff_s, retry_resume, resumable, checkpoint_grace_s, checkpoint_needed,
	checkpoint, signal_id, signal_deadline, signal_acked_at, paused_at, protected, no_network, runtime, collected, batch_held`

// row is a row of the table job: a Job, with the columns of its queue status and its signal.
type row struct {
	Job

	QueuePosition                 int
	QueueReason, QueueDetail      string
	QueuedAt                      time.Time
	SignalID                      string
	SignalDeadline, SignalAckedAt *time.Time
}

func (r *row) job() *Job {
	r.Queue = Queue{Position: r.QueuePosition, Reason: r.QueueReason, Detail: r.QueueDetail, Since: r.QueuedAt}
	r.Signal = Signal{ID: r.SignalID, Deadline: r.SignalDeadline, AckedAt: r.SignalAckedAt}
	return &r.Job
}

func one(rows pgx.Rows, err error) (*Job, error) {
	r, err := pg.One[row](rows, err)
	if err != nil {
		return nil, err
	}
	return r.job(), nil
}

// Get returns a job that callers with this scope may see, without its template. For any other job it returns the same
// error as for one that does not exist.
func (s *Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Job, error) {
	j, err := one(q.Query(ctx, `SELECT `+shownColumns+` FROM job WHERE `+access.Visible+` AND id = $4`,
		access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load job: %w", err)
	}
	return j, nil
}

// OfRun returns the job of a run, without its template, if callers with this scope may see the job.
func (s *Store) OfRun(ctx context.Context, q pg.Querier, scope authn.Scope, runID string) (*Job, error) {
	j, err := one(q.Query(ctx, `SELECT `+shownColumns+` FROM job WHERE `+access.Visible+` AND run_id = $4`,
		access.Args(scope, runID)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("run", runID)
	}
	if err != nil {
		return nil, fmt.Errorf("load the job of a run: %w", err)
	}
	return j, nil
}

// IDOfRun returns the ID of the job of a run.
func (s *Store) IDOfRun(ctx context.Context, q pg.Querier, runID string) (string, error) {
	var id string
	err := q.QueryRow(ctx, `SELECT id FROM job WHERE run_id = $1`, runID).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", fault.Absentf("run", runID)
	}
	if err != nil {
		return "", fmt.Errorf("find the job of a run: %w", err)
	}
	return id, nil
}

// Look returns a job without a visibility check, for the service itself.
func (s *Store) Look(ctx context.Context, q pg.Querier, id string) (*Job, error) {
	return s.Get(ctx, q, access.ServiceScope(), id)
}

// SignalOf returns the job of a run with only the fields that its current signal needs: training processes poll for
// the signal every few seconds, and the spec of a job can be a megabyte long.
func (s *Store) SignalOf(ctx context.Context, q pg.Querier, runID string) (*Job, error) {
	var j Job
	err := q.QueryRow(ctx, `SELECT id, attempt, state, signal_id, signal_deadline, signal_acked_at FROM job WHERE run_id = $1`, runID).
		Scan(&j.ID, &j.Attempt, &j.State, &j.Signal.ID, &j.Signal.Deadline, &j.Signal.AckedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("run", runID)
	}
	if err != nil {
		return nil, fmt.Errorf("read the signal of a run: %w", err)
	}
	return &j, nil
}

// Signalled maps the ID of each run that is pausing or stopping to the ID of its current signal.
func (s *Store) Signalled(ctx context.Context, q pg.Querier) (map[string]string, error) {
	rows, err := q.Query(ctx, `SELECT run_id, state, signal_id, signal_acked_at FROM job WHERE state IN ('pausing', 'stopping')
		ORDER BY run_id LIMIT $1`, maxSignalled)
	if err != nil {
		return nil, fmt.Errorf("list signalled runs: %w", err)
	}
	signals := map[string]string{}
	var j Job
	_, err = pgx.ForEachRow(rows, []any{&j.RunID, &j.State, &j.Signal.ID, &j.Signal.AckedAt}, func() error {
		signals[j.RunID] = j.CurrentSignal().ID
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read signalled runs: %w", err)
	}
	return signals, nil
}

// maxSignalled is the maximum number of runs that Signalled returns. Other runs get their signal when they poll.
const maxSignalled = 10_000

// ResumePoints returns those of the given artifacts of the given runs from which the job of their run, or any job that has not
// ended, resumes. A retry of an ended job resumes from the checkpoint of that job.
func (s *Store) ResumePoints(ctx context.Context, q pg.Querier, runs, artifacts []string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT checkpoint ->> 'artifact_id' FROM job WHERE run_id = ANY($1) AND checkpoint ->> 'artifact_id' = ANY($2)
		UNION SELECT checkpoint ->> 'artifact_id' FROM job WHERE ended_at IS NULL AND checkpoint ->> 'artifact_id' = ANY($2)`, runs, artifacts)
	if err != nil {
		return nil, fmt.Errorf("find the checkpoints from which jobs resume: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find the checkpoints from which jobs resume: %w", err)
	}
	return found, nil
}

// Lock loads a job for a change and blocks other changes until the transaction ends.
func (s *Store) Lock(ctx context.Context, tx pgx.Tx, id string) (*Job, error) {
	j, err := one(tx.Query(ctx, `SELECT `+lockedColumns+` FROM job WHERE id = $1 FOR UPDATE`, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("lock job: %w", err)
	}
	return j, nil
}

// Statuses returns the job's status after each event whose number is greater than the given one, oldest first.
func (s *Store) Statuses(ctx context.Context, q pg.Querier, id string, after int64, limit int) ([]Status, error) {
	rows, err := q.Query(ctx, `SELECT data FROM event WHERE subject_kind = $1 AND subject_id = $2
		ORDER BY seq LIMIT $3 OFFSET $4`, SubjectKind, id, limit, after)
	if err != nil {
		return nil, fmt.Errorf("read the events of a job: %w", err)
	}
	statuses, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (st Status, err error) {
		var raw []byte
		if err := row.Scan(&raw); err != nil {
			return st, err
		}
		return st, json.Unmarshal(raw, &st)
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of a job: %w", err)
	}
	return statuses, nil
}
