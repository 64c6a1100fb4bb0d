package scheduler

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// lookahead is the maximum number of jobs, and of engines, that one pass considers. Later passes consider the rest.
const lookahead = 1000

func waitingJobs(ctx context.Context, q pg.Querier) ([]Waiting, error) {
	rows, err := q.Query(ctx, `SELECT id, owner_id, team_id, priority, created_at, not_before, pools, queue_reason, queue_detail, queue_position
		FROM job WHERE state = 'queued' ORDER BY priority DESC, created_at, id LIMIT $1`, lookahead)
	if err != nil {
		return nil, fmt.Errorf("list waiting jobs: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w Waiting, err error) {
		err = row.Scan(&w.JobID, &w.OwnerID, &w.TeamID, &w.Priority, &w.SubmittedAt, &w.NotBefore, &w.Pools, &w.Reason, &w.Detail, &w.Position)
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("read waiting jobs: %w", err)
	}
	return jobs, nil
}

func waitingEngines(ctx context.Context, q pg.Querier) ([]Engine, error) {
	rows, err := q.Query(ctx, `SELECT id, owner_id, pool, driver, gpus, slots FROM work
		WHERE kind = 'engine' AND node_id = '' AND desired = 'running' ORDER BY id LIMIT $1`, lookahead)
	if err != nil {
		return nil, fmt.Errorf("list waiting engines: %w", err)
	}
	engines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Engine, err error) {
		err = row.Scan(&e.WorkID, &e.OwnerID, &e.Pool, &e.Driver, &e.GPUs, &e.Slots)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read waiting engines: %w", err)
	}
	return engines, nil
}

// explain stores why jobs wait. This is not a state change, so it appends no event, and it writes only changed
// rows. It skips locked jobs until the next pass, so that two schedulers never wait for each other.
func explain(ctx context.Context, q pg.Querier, decisions []Decision) error {
	ids, reasons, details := make([]string, len(decisions)), make([]string, len(decisions)), make([]string, len(decisions))
	positions := make([]int32, len(decisions))
	for i, d := range decisions {
		ids[i], reasons[i], details[i], positions[i] = d.JobID, d.Reason, d.Detail, int32(d.Position)
	}
	_, err := q.Exec(ctx, `WITH free AS MATERIALIZED (
			SELECT id FROM job WHERE id = ANY($1) AND state = 'queued' FOR NO KEY UPDATE SKIP LOCKED)
		UPDATE job SET queue_reason = d.reason, queue_detail = d.detail, queue_position = d.position
		FROM unnest($1::text[], $2::text[], $3::text[], $4::int[]) AS d (id, reason, detail, position)
			JOIN free ON free.id = d.id
		WHERE job.id = d.id
			AND (job.queue_reason, job.queue_detail, job.queue_position) IS DISTINCT FROM (d.reason, d.detail, d.position)`,
		ids, reasons, details, positions)
	if err != nil {
		return fmt.Errorf("store the queue reasons of jobs: %w", err)
	}
	return nil
}

// starve stores why engines wait, and wakes the watches of engines if that is new. Like explain it skips locked rows.
func starve(ctx context.Context, pool pg.Beginner, decisions []Decision) error {
	ids, reasons := make([]string, len(decisions)), make([]string, len(decisions))
	for i, d := range decisions {
		ids[i], reasons[i] = d.WorkID, assignment.WaitCapacity
		if d.Reason == job.WaitAccountQuota {
			reasons[i] = assignment.WaitQuota
		}
	}
	return pg.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `WITH free AS MATERIALIZED (
				SELECT work.id, d.reason FROM work JOIN unnest($1::text[], $2::text[]) AS d (id, reason) ON d.id = work.id
				WHERE kind = 'engine' AND node_id = '' AND desired = 'running' AND waiting <> d.reason
				FOR NO KEY UPDATE OF work SKIP LOCKED)
			UPDATE work SET waiting = free.reason, updated_at = clock_timestamp() FROM free WHERE work.id = free.id`, ids, reasons)
		if err != nil {
			return fmt.Errorf("store why engines wait: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return pg.Notify(ctx, tx, db.EnginesTopic)
	})
}
