package assignment

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Insert stores a new work.
func (s *Store) Insert(ctx context.Context, tx pgx.Tx, w *Work) error {
	_, err := tx.Exec(ctx, `INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots,
			job_id, attempt, rank, nnodes, role, master, owner_id, project_id, driver, node_id, waiting,
			cpus, memory_bytes, created_at, updated_at, deadline)
		VALUES (@id, @kind, @generation, @fence, @desired, @desired_at, @spec, @pool, @gpus, @slots, @job_id, @attempt, @rank, @nnodes,
			@role, @master, @owner_id, @project_id, @driver, @node_id, @waiting, @cpus, @memory_bytes, @desired_at, @desired_at, @deadline)`, pgx.StrictNamedArgs{
		"id": w.ID, "kind": w.Kind, "generation": w.Generation, "fence": w.Fence, "desired": w.Desired, "desired_at": w.DesiredAt,
		"spec": w.Spec, "pool": w.Pool, "gpus": w.GPUs, "slots": w.Slots, "job_id": w.JobID, "attempt": w.Number, "rank": w.Rank,
		"nnodes": w.NNodes, "role": w.Role, "master": w.Master, "owner_id": w.OwnerID, "project_id": w.ProjectID,
		"driver": w.Driver, "node_id": w.NodeID, "waiting": w.Waiting, "cpus": w.CPUs, "memory_bytes": w.Memory,
		"deadline": w.Deadline,
	})
	if err != nil {
		return fmt.Errorf("insert work: %w", err)
	}
	return s.notify(ctx, tx, w, "")
}

// Save writes a changed work. before is its key as it was loaded; if the row has another generation or fence by
// now, Save returns a conflict.
func (s *Store) Save(ctx context.Context, tx pgx.Tx, w *Work, before Key, beforeNode string, now time.Time) error {
	var sealed []byte
	if !w.EngineKey.IsZero() {
		var err error
		if sealed, err = s.Keys.Seal([]byte(w.EngineKey.Reveal()), keyPlace(w.ID)); err != nil {
			return fmt.Errorf("seal the key of engine %s: %w", w.ID, err)
		}
	}
	var code *int
	var signal int
	var reason, message string
	if w.Exit != nil {
		code, signal, reason, message = &w.Exit.Code, w.Exit.Signal, w.Exit.Reason, w.Exit.Message
	}
	tag, err := tx.Exec(ctx, `UPDATE work SET generation = @generation, fence = @fence, phase = @phase, detail = @detail,
			preparing_at = @preparing_at, running_at = @running_at, exited_at = @exited_at, exit_code = @exit_code,
			exit_signal = @exit_signal, exit_reason = @exit_reason, exit_message = @exit_message, engine = @engine,
			engine_key = @engine_key, desired = @desired, desired_at = @desired_at, spec = @spec, pool = @pool, gpus = @gpus,
			slots = @slots, driver = @driver, node_id = @node_id, waiting = @waiting, released_at = @released_at,
			updated_at = @updated_at, force = @force, deadline = @deadline
		WHERE id = @id AND generation = @before_generation AND fence = @before_fence`, pgx.StrictNamedArgs{
		"id": w.ID, "before_generation": before.Generation, "before_fence": before.Fence, "generation": w.Generation,
		"fence": w.Fence, "phase": w.Phase, "detail": w.Detail, "preparing_at": w.PreparingAt, "running_at": w.RunningAt,
		"exited_at": w.ExitedAt, "exit_code": code, "exit_signal": signal, "exit_reason": reason, "exit_message": message,
		"engine": w.Engine, "engine_key": sealed, "desired": w.Desired, "desired_at": w.DesiredAt, "spec": w.Spec, "pool": w.Pool,
		"gpus": w.GPUs, "slots": w.Slots, "driver": w.Driver, "node_id": w.NodeID, "waiting": w.Waiting,
		"released_at": w.ReleasedAt, "updated_at": now, "force": w.Force, "deadline": w.Deadline,
	})
	if err != nil {
		return fmt.Errorf("save work: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "work_moved", "work %s was changed concurrently", w.ID)
	}
	return s.notify(ctx, tx, w, beforeNode)
}

// Delete deletes the works and their ingest tokens. No node may have acknowledged any of the works.
func (s *Store) Delete(ctx context.Context, tx pgx.Tx, works []*Work) error {
	for _, w := range works {
		if _, err := tx.Exec(ctx, `DELETE FROM ingest_token WHERE work_id = $1`, w.ID); err != nil {
			return fmt.Errorf("delete the tokens of a work: %w", err)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM work WHERE id = $1`, w.ID); err != nil {
			return fmt.Errorf("delete work: %w", err)
		}
		if err := s.notify(ctx, tx, w, ""); err != nil {
			return err
		}
	}
	return nil
}

// Purge deletes engines that have been gone for a day.
func (s *Store) Purge(ctx context.Context, q pg.Querier) error {
	_, err := q.Exec(ctx, `DELETE FROM work WHERE kind = 'engine' AND phase = 'gone' AND released_at IS NOT NULL
		AND updated_at < clock_timestamp() - interval '1 day'`)
	if err != nil {
		return fmt.Errorf("purge engines: %w", err)
	}
	return nil
}

// notify wakes the streams of the affected nodes. If the work is an engine, it also wakes the engine watches and
// the scheduler.
func (s *Store) notify(ctx context.Context, tx pgx.Tx, w *Work, beforeNode string) error {
	topics := []pg.Topic{}
	if w.NodeID != "" {
		topics = append(topics, db.NodeTopic(w.NodeID))
	}
	if beforeNode != "" && beforeNode != w.NodeID {
		topics = append(topics, db.NodeTopic(beforeNode))
	}
	if w.Kind == Engine {
		topics = append(topics, db.EnginesTopic, db.QueueTopic)
	}
	for _, changed := range topics {
		if err := pg.Notify(ctx, tx, changed); err != nil {
			return err
		}
	}
	return nil
}
