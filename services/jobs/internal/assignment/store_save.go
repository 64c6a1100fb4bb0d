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
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$6,$6,$24)`,
		w.ID, w.Kind, w.Generation, w.Fence, w.Desired, w.DesiredAt, w.Spec, w.Pool, w.GPUs, w.Slots,
		w.JobID, w.Number, w.Rank, w.NNodes, w.Role, w.Master, w.OwnerID, w.ProjectID, w.Driver, w.NodeID, w.Waiting,
		w.CPUs, w.Memory, w.Deadline)
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
	tag, err := tx.Exec(ctx, `UPDATE work SET generation = $4, fence = $5, phase = $6, detail = $7, preparing_at = $8,
			running_at = $9, exited_at = $10, exit_code = $11, exit_signal = $12, exit_reason = $13, exit_message = $14,
			engine = $15, engine_key = $16, desired = $17, desired_at = $18, spec = $19, pool = $20, gpus = $21,
			slots = $22, driver = $23, node_id = $24, waiting = $25, released_at = $26, updated_at = $27,
			force = $28, deadline = $29
		WHERE id = $1 AND generation = $2 AND fence = $3`,
		w.ID, before.Generation, before.Fence, w.Generation, w.Fence, w.Phase, w.Detail, w.PreparingAt,
		w.RunningAt, w.ExitedAt, code, signal, reason, message,
		w.Engine, sealed, w.Desired, w.DesiredAt, w.Spec, w.Pool, w.GPUs,
		w.Slots, w.Driver, w.NodeID, w.Waiting, w.ReleasedAt, now, w.Force, w.Deadline)
	if err != nil {
		return fmt.Errorf("save work: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "work_moved", "work %s was changed concurrently", w.ID)
	}
	return s.notify(ctx, tx, w, beforeNode)
}

// Delete deletes works that no node has acknowledged, and any ingest tokens minted for them.
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
