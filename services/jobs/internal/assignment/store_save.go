package assignment

import (
	"context"
	"errors"
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
			job_id, attempt, rank, nnodes, role, master, master_port, owner_id, project_id, driver, node_id, waiting,
			cpus, memory_bytes, created_at, updated_at, deadline, team_id, batch)
		VALUES (@id, @kind, @generation, @fence, @desired, @desired_at, @spec, @pool, @gpus, @slots, @job_id, @attempt, @rank, @nnodes,
			@role, @master, @master_port, @owner_id, @project_id, @driver, @node_id, @waiting, @cpus, @memory_bytes, @desired_at, @desired_at, @deadline, @team_id, @batch)`, pgx.StrictNamedArgs{
		"id": w.ID, "kind": w.Kind, "generation": w.Generation, "fence": w.Fence, "desired": w.Desired, "desired_at": w.DesiredAt,
		"spec": w.Spec, "pool": w.Pool, "gpus": w.GPUs, "slots": w.Slots, "job_id": w.JobID, "attempt": w.Number, "rank": w.Rank,
		"nnodes": w.NNodes, "role": w.Role, "master": w.Master, "master_port": w.MasterPort, "owner_id": w.OwnerID, "project_id": w.ProjectID,
		"driver": w.Driver, "node_id": w.NodeID, "waiting": w.Waiting, "cpus": w.CPUs, "memory_bytes": w.Memory,
		"deadline": w.Deadline, "team_id": w.TeamID, "batch": w.Batch,
	})
	if err != nil {
		return fmt.Errorf("insert work: %w", err)
	}
	return s.notify(ctx, tx, w, "")
}

// Save writes a changed work; a spec that was not loaded stays as it is. The parameter before is the Key that the work
// had when it was loaded. If the row now has another generation or fence, Save returns a conflict. The lease of an
// earlier execution ends.
func (s *Store) Save(ctx context.Context, tx pgx.Tx, w *Work, before Key, beforeNode string, now time.Time) error {
	var sealed []byte
	if !w.EngineKey.IsZero() {
		var err error
		if sealed, err = s.Keys.Seal([]byte(w.EngineKey.Reveal()), keyPlace(w.ID)); err != nil {
			return fmt.Errorf("encrypt the API key of engine %s: %w", w.ID, err)
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
			exit_signal = @exit_signal, exit_reason = @exit_reason, exit_message = @exit_message, uncollected = @uncollected, engine = @engine,
			engine_key = @engine_key, desired = @desired, desired_at = @desired_at, spec = COALESCE(@spec, spec), pool = @pool, gpus = @gpus,
			slots = @slots, driver = @driver, node_id = @node_id, waiting = @waiting, released_at = @released_at,
			updated_at = @updated_at, force = @force, deadline = @deadline, team_id = @team_id,
			batch_id = @batch_id, batch_reason = @batch_reason, batch_detail = @batch_detail, batch_nodes = @batch_nodes,
			lease_hash = CASE WHEN (generation, fence, node_id) = (@generation, @fence, @node_id) THEN lease_hash END,
			renewed_at = CASE WHEN (generation, fence, node_id) = (@generation, @fence, @node_id) THEN renewed_at END
		WHERE id = @id AND generation = @before_generation AND fence = @before_fence`, pgx.StrictNamedArgs{
		"id": w.ID, "before_generation": before.Generation, "before_fence": before.Fence, "generation": w.Generation,
		"fence": w.Fence, "phase": w.Phase, "detail": w.Detail, "preparing_at": w.PreparingAt, "running_at": w.RunningAt,
		"exited_at": w.ExitedAt, "exit_code": code, "exit_signal": signal, "exit_reason": reason, "exit_message": message, "uncollected": w.Uncollected,
		"engine": w.Engine, "engine_key": sealed, "desired": w.Desired, "desired_at": w.DesiredAt, "spec": w.Spec, "pool": w.Pool,
		"gpus": w.GPUs, "slots": w.Slots, "driver": w.Driver, "node_id": w.NodeID, "waiting": w.Waiting,
		"released_at": w.ReleasedAt, "updated_at": now, "force": w.Force, "deadline": w.Deadline, "team_id": w.TeamID,
		"batch_id": w.BatchID, "batch_reason": w.BatchReason, "batch_detail": w.BatchDetail, "batch_nodes": w.BatchNodes,
	})
	if err != nil {
		return fmt.Errorf("save work: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "work_moved", "work %s was changed concurrently", w.ID)
	}
	return s.notify(ctx, tx, w, beforeNode)
}

// Grant begins the lease of a locked work with a new token, which replaces the previous one. The lease of a work that a
// batch system must start first begins when it is renewed for the first time.
func (s *Store) Grant(ctx context.Context, tx pgx.Tx, id string, hash []byte, now time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE work SET lease_hash = $2, renewed_at = CASE WHEN NOT batch THEN $3::timestamptz END WHERE id = $1`, id, hash, now)
	if err != nil {
		return fmt.Errorf("store the lease of a work: %w", err)
	}
	return nil
}

// Renew renews the lease of a work. The result known is false if the work's lease has another token, or if the work's
// node was removed. The result wanted is false if the work should not run; its lease is then not renewed.
func (s *Store) Renew(ctx context.Context, q pg.Querier, id string, hash []byte, now time.Time) (known, wanted bool, err error) {
	err = q.QueryRow(ctx, `WITH found AS (SELECT w.id, w.desired = 'running' AND w.released_at IS NULL AS wanted
			FROM work w JOIN node n ON n.id = w.node_id WHERE w.id = $1 AND w.lease_hash = $2 FOR NO KEY UPDATE OF w),
		renewed AS (UPDATE work SET renewed_at = $3 FROM found WHERE work.id = found.id AND found.wanted)
		SELECT wanted FROM found`, id, hash, now).Scan(&wanted)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("renew the lease of a work: %w", err)
	}
	return true, wanted, nil
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
