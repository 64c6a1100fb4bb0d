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
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Cause holds the fields of a change's event that do not follow from the job.
type Cause struct {
	Type      string // event type; job.<state> if empty
	ActorKind string // if empty, the caller or the service itself
	ActorID   string
	Reason    string
	Message   string
	// Closed means that the closing of the job's run is queued already.
	Closed bool
}

// Insert stores a new job with its run and its first event.
func (s *Store) Insert(ctx context.Context, tx pgx.Tx, j *Job, run RunFacts, cause Cause) error {
	j.Seq = 1
	_, err := tx.Exec(ctx, `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility,
			labels, priority, spec, spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s,
			created_at, state, queue_reason, queued_at, seq, own_command, team_id,
			visibility_version, retry_on, retry_codes, retry_backoff_s, retry_resume, resumable, checkpoint_grace_s, checkpoint_needed,
			checkpoint, protected, no_network, runtime)
		VALUES (@id, @run_id, @name, @owner_id, @owner_name, @project_id, @project, @visibility, @labels, @priority, @spec,
			@spec_digest, @template, @pools, @gpus, @retry_max, @running_s, @starting_s, @queued_s, @created_at, @state,
			@queue_reason, @queued_at, @seq, @own_command, @team_id, @visibility_version, coalesce(@retry_on,
			'{infra,preempted}'::text[]), coalesce(@retry_codes, '{}'::integer[]), @retry_backoff_s, @retry_resume, @resumable,
			@checkpoint_grace_s, @checkpoint_needed, @checkpoint, @protected, @no_network, @runtime)`, pgx.StrictNamedArgs{
		"id": j.ID, "run_id": j.RunID, "name": j.Name, "owner_id": j.OwnerID, "owner_name": j.OwnerName, "project_id": j.ProjectID,
		"project": j.Project, "visibility": j.Visibility, "labels": j.Labels, "priority": j.Priority, "spec": j.Spec,
		"spec_digest": j.SpecDigest, "template": j.Template, "pools": j.Pools, "gpus": j.GPUs, "retry_max": j.RetryMax,
		"running_s": j.RunningS, "starting_s": j.StartingS, "queued_s": j.QueueS, "created_at": j.CreatedAt, "state": j.State,
		"queue_reason": j.Queue.Reason, "queued_at": j.Queue.Since, "seq": j.Seq, "own_command": j.OwnCommand, "team_id": j.TeamID,
		"visibility_version": j.VisibilityVersion, "retry_on": j.RetryOn, "retry_codes": j.RetryCodes,
		"retry_backoff_s": max(1, j.BackoffS), "retry_resume": cmp.Or(j.RetryFrom, ResumeLatest), "resumable": j.Resumable,
		"checkpoint_grace_s": max(1, j.CheckpointGraceS), "checkpoint_needed": j.CheckpointNeeded, "checkpoint": j.Checkpoint,
		"protected": j.Protected, "no_network": j.NoNetwork, "runtime": j.Runtime,
	})
	if err != nil {
		return fmt.Errorf("insert job: %w", err)
	}
	created := j.CreatedAt
	if created.Equal(id.Time(j.ID)) {
		created = id.Time(j.RunID) // for the same reason as that of the job
	}
	var parents any // NULL if there are none
	if len(run.Parents) > 0 {
		parents = run.Parents
	}
	_, err = tx.Exec(ctx, `INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility,
			state, recipe_lock, bindings, recipe_digest, spec_digest, created_at, visibility_version, parents, protected,
			protected_datasets, disclosure, goals)
		VALUES (@id, @job_id, @name, @owner_id, @owner_name, @project_id, @project, @visibility, @state, @recipe_lock, @bindings,
			@recipe_digest, @spec_digest, @created_at, @visibility_version, coalesce(@parents, '[]'::jsonb), @protected,
			coalesce(@protected_datasets, '{}'::text[]), @disclosure, @goals)`, pgx.StrictNamedArgs{
		"id": j.RunID, "job_id": j.ID, "name": j.Name, "owner_id": j.OwnerID, "owner_name": j.OwnerName, "project_id": j.ProjectID,
		"project": j.Project, "visibility": j.Visibility, "state": j.State, "recipe_lock": run.RecipeLock,
		"bindings": run.Bindings, "recipe_digest": run.RecipeDigest, "spec_digest": j.SpecDigest, "created_at": created,
		"visibility_version": j.VisibilityVersion, "parents": parents, "protected": j.Protected,
		"protected_datasets": run.ProtectedDatasets, "disclosure": run.Disclosure, "goals": goalsOrNil(run.Goals),
	})
	if err != nil {
		return fmt.Errorf("insert run: %w", err)
	}
	return s.appendEvent(ctx, tx, j, "", cause)
}

// RunFacts are the permanent facts of a run that are not stored with the job.
type RunFacts struct {
	RecipeLock   []byte
	Bindings     []byte
	RecipeDigest string
	Parents      []Parent
	// For a protected run: the ids of the protected datasets that it reads, and what it may report, as JSON.
	ProtectedDatasets []string
	Disclosure        []byte
	// Goals has "minimize" or "maximize" for the metrics whose best values the recipe states.
	Goals map[string]string
}

// goalsOrNil returns NULL if there are no goals.
func goalsOrNil(goals map[string]string) any {
	if len(goals) == 0 {
		return nil
	}
	return goals
}

// Save writes a changed job, its run and its event. The SQL rejects a state change that Edges does not allow,
// and a change to a job that was changed after it was loaded.
func (s *Store) Save(ctx context.Context, tx pgx.Tx, j *Job, before State, cause Cause) error {
	from := []State{before}
	if j.State != before {
		from = Sources(j.State)
	}
	err := tx.QueryRow(ctx, `UPDATE job SET state = @state, end_reason = @end_reason, message = @message, warnings = @warnings,
			attempt = @attempt, stop_reason = @stop_reason, queue_position = @queue_position, queue_reason = @queue_reason,
			queue_detail = @queue_detail, queued_at = @queued_at, not_before = @not_before, scheduled_at = @scheduled_at,
			starting_at = @starting_at, executor_running_at = @executor_running_at, running_at = @running_at, ended_at = @ended_at,
			retries = @retries, signal_id = @signal_id, signal_deadline = @signal_deadline, signal_acked_at = @signal_acked_at,
			paused_at = @paused_at, checkpoint = @checkpoint, collected = @collected, batch_held = @batch_held, seq = seq + 1
		WHERE id = @id AND state = ANY(@from) AND seq = @seq RETURNING seq`, pgx.StrictNamedArgs{
		"id": j.ID, "from": from, "seq": j.Seq, "state": j.State, "end_reason": j.EndReason, "message": j.Message,
		"warnings": notNil(j.Warnings), "attempt": j.Attempt, "stop_reason": j.StopReason, "queue_position": j.Queue.Position,
		"queue_reason": j.Queue.Reason, "queue_detail": j.Queue.Detail, "queued_at": j.Queue.Since, "not_before": j.NotBefore,
		"scheduled_at": j.ScheduledAt, "starting_at": j.StartingAt, "executor_running_at": j.ExecutorRunningAt,
		"running_at": j.RunningAt, "ended_at": j.EndedAt, "retries": j.Retries, "signal_id": j.Signal.ID,
		"signal_deadline": j.Signal.Deadline, "signal_acked_at": j.Signal.AckedAt, "paused_at": j.PausedAt,
		"checkpoint": j.Checkpoint, "collected": j.Collected, "batch_held": j.BatchHeld,
	}).Scan(&j.Seq)
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
	if j.State.Terminal() && !cause.Closed {
		if err := s.Closer.CloseRun(ctx, tx, j.RunID); err != nil {
			return fmt.Errorf("queue the closing of a run: %w", err)
		}
	}
	return s.appendEvent(ctx, tx, j, before, cause)
}

// SaveQueue writes why a batch system holds a locked job. This is not a state change, so it appends no event.
func (s *Store) SaveQueue(ctx context.Context, tx pgx.Tx, j *Job) error {
	_, err := tx.Exec(ctx, `UPDATE job SET queue_reason = $2, queue_detail = $3 WHERE id = $1 AND state = 'scheduled' AND batch_held`,
		j.ID, j.Queue.Reason, j.Queue.Detail)
	if err != nil {
		return fmt.Errorf("store why a batch system holds a job: %w", err)
	}
	return nil
}

// SaveFacts writes the name, labels, priority and limits of a locked job. If the name of the job changes, its run gets
// the new name; otherwise the run keeps a name of its own. The caller must call Save afterwards.
func (s *Store) SaveFacts(ctx context.Context, tx pgx.Tx, j *Job) error {
	_, err := tx.Exec(ctx, `UPDATE run SET name = $2, version = version + 1 WHERE id = $1 AND name <> $2
		AND EXISTS (SELECT FROM job WHERE id = $3 AND name <> $2)`, j.RunID, j.Name, j.ID)
	if err != nil {
		return fmt.Errorf("save the changed fields of a run: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE job SET name = $2, labels = $3, priority = $4, running_s = $5, starting_s = $6, queued_s = $7
		WHERE id = $1`, j.ID, j.Name, j.Labels, j.Priority, j.RunningS, j.StartingS, j.QueueS)
	if err != nil {
		return fmt.Errorf("save the changed fields of a job: %w", err)
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
