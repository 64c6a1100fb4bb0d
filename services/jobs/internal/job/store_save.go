package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Cause describes a change in its event.
type Cause struct {
	Type      string // event type; job.<state> if empty
	ActorKind string // if empty, the caller or the service itself
	ActorID   string
	Reason    string
	Message   string
}

// Insert stores a new job with its run and its first event.
func (s *Store) Insert(ctx context.Context, tx pgx.Tx, j *Job, run RunFacts, cause Cause) error {
	j.Seq = 1
	_, err := tx.Exec(ctx, `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility,
			labels, priority, spec, spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s,
			created_at, state, queue_reason, queued_at, seq, own_command, team_id,
			visibility_version, retry_on, retry_codes, retry_backoff_s, retry_resume, resumable, checkpoint_grace_s, checkpoint_needed,
			checkpoint)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25,$26,$27,
			coalesce($28, '{infra,preempted}'::text[]),coalesce($29, '{}'::integer[]),$30,$31,$32,$33,$34,$35)`,
		j.ID, j.RunID, j.Name, j.OwnerID, j.OwnerName, j.ProjectID, j.Project, j.Visibility,
		j.Labels, j.Priority, j.Spec, j.SpecDigest, j.Template, j.Pools, j.GPUs, j.RetryMax,
		j.RunningS, j.StartingS, j.QueueS, j.CreatedAt, j.State, j.Queue.Reason, j.Queue.Since, j.Seq, j.OwnCommand, j.TeamID,
		j.VisibilityVersion, j.RetryOn, j.RetryCodes, max(1, j.BackoffS), cmp.Or(j.RetryFrom, ResumeLatest), j.Resumable,
		max(1, j.CheckpointGraceS), j.CheckpointNeeded, j.Checkpoint)
	if err != nil {
		return fmt.Errorf("insert job: %w", err)
	}
	var parents any // NULL if there are none
	if len(run.Parents) > 0 {
		parents = run.Parents
	}
	_, err = tx.Exec(ctx, `INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility,
			state, recipe_lock, bindings, recipe_digest, spec_digest, created_at, visibility_version, parents, protected)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,coalesce($16, '[]'::jsonb),$17)`,
		j.RunID, j.ID, j.Name, j.OwnerID, j.OwnerName, j.ProjectID, j.Project, j.Visibility,
		j.State, run.RecipeLock, run.Bindings, run.RecipeDigest, j.SpecDigest, j.CreatedAt, j.VisibilityVersion, parents, run.Protected)
	if err != nil {
		return fmt.Errorf("insert run: %w", err)
	}
	return s.appendEvent(ctx, tx, j, "", cause)
}

// RunFacts are the permanent facts of a run that its job does not have.
type RunFacts struct {
	RecipeLock   []byte
	Bindings     []byte
	RecipeDigest string
	Parents      []Parent
	Protected    bool // the run reads a protected dataset
}

// Save writes a changed job, its run and its event. The SQL rejects a state change that Edges does not allow,
// and a change to a job that was changed after it was loaded.
func (s *Store) Save(ctx context.Context, tx pgx.Tx, j *Job, before State, cause Cause) error {
	from := []State{before}
	if j.State != before {
		from = Sources(j.State)
	}
	err := tx.QueryRow(ctx, `UPDATE job SET state = $4, end_reason = $5, message = $6, warnings = $7, attempt = $8,
			stop_reason = $9, queue_position = $10, queue_reason = $11, queue_detail = $12, queued_at = $13,
			not_before = $14, scheduled_at = $15, starting_at = $16, executor_running_at = $17, running_at = $18,
			ended_at = $19, retries = $20, signal_id = $21, signal_deadline = $22, signal_acked_at = $23, paused_at = $24,
			checkpoint = $25, seq = seq + 1
		WHERE id = $1 AND state = ANY($2) AND seq = $3 RETURNING seq`,
		j.ID, from, j.Seq, j.State, j.EndReason, j.Message, notNil(j.Warnings), j.Attempt,
		j.StopReason, j.Queue.Position, j.Queue.Reason, j.Queue.Detail, j.Queue.Since,
		j.NotBefore, j.ScheduledAt, j.StartingAt, j.ExecutorRunningAt, j.RunningAt, j.EndedAt,
		j.Retries, j.Signal.ID, j.Signal.Deadline, j.Signal.AckedAt, j.PausedAt, j.Checkpoint).Scan(&j.Seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.New(fault.Conflict, "job_state", "job %s cannot become %s from its current state", j.ID, j.State)
	}
	if err != nil {
		return fmt.Errorf("save job: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE run SET state = $2, attempts = $3, end_reason = $4, ended_at = $5,
			started_at = coalesce(started_at, $6) WHERE id = $1`,
		j.RunID, j.State, j.Attempt, j.EndReason, j.EndedAt, j.StartingAt)
	if err != nil {
		return fmt.Errorf("save run: %w", err)
	}
	if j.State.Terminal() {
		if err := s.Closer.CloseRun(ctx, tx, j.RunID); err != nil {
			return fmt.Errorf("queue the closing of a run: %w", err)
		}
	}
	return s.appendEvent(ctx, tx, j, before, cause)
}

// SaveFacts writes the name, labels, priority and limits of a locked job, and the name of its run. The caller
// must call Save afterwards.
func (s *Store) SaveFacts(ctx context.Context, tx pgx.Tx, j *Job) error {
	_, err := tx.Exec(ctx, `UPDATE job SET name = $2, labels = $3, priority = $4, running_s = $5, starting_s = $6, queued_s = $7
		WHERE id = $1`, j.ID, j.Name, j.Labels, j.Priority, j.RunningS, j.StartingS, j.QueueS)
	if err != nil {
		return fmt.Errorf("save the changed fields of a job: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE run SET name = $2 WHERE id = $1`, j.RunID, j.Name); err != nil {
		return fmt.Errorf("save the changed fields of a run: %w", err)
	}
	return nil
}

// appendEvent appends the event of a change and wakes the watchers.
func (s *Store) appendEvent(ctx context.Context, tx pgx.Tx, j *Job, before State, cause Cause) error {
	status := j.Status
	status.Warnings = notNil(status.Warnings)
	data, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encode the status of a job: %w", err)
	}
	if cause.Type == "" {
		cause.Type = "job." + string(j.State)
	}
	if cause.Reason == "" {
		cause.Reason = j.EndReason
	}
	if cause.Message == "" {
		cause.Message = j.Message
	}
	_, err = s.Events.Append(ctx, tx, event.Event{
		SubjectKind: SubjectKind, SubjectID: j.ID, Type: cause.Type, ActorKind: cause.ActorKind, ActorID: cause.ActorID,
		From: string(before), To: string(j.State), Reason: cause.Reason, Message: cause.Message, Data: data,
	})
	if err != nil {
		return fmt.Errorf("append the event of a job: %w", err)
	}
	if err := pg.Notify(ctx, tx, db.JobTopic(j.ID)); err != nil {
		return err
	}
	if signals(before) || signals(j.State) {
		if err := pg.Notify(ctx, tx, db.SignalsTopic); err != nil {
			return err
		}
	}
	return pg.Notify(ctx, tx, db.QueueTopic)
}

func notNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// signals reports whether the training of a job in this state has a signal to carry out.
func signals(s State) bool { return s == Pausing || s == Stopping }
