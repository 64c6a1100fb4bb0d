package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// The bounds of one pass. Later passes consider the rest.
const (
	// lookahead is the maximum number of jobs, and of engines, that one pass considers.
	lookahead = 1000
	// leastJobs is how many jobs of each account a pass reads, however many accounts there are.
	leastJobs = 10
	// maxAccounts is the maximum number of accounts whose jobs a pass reads.
	maxAccounts = 10_000
)

// waitingJobs returns queued jobs whose backoff, if any, is over. The accounts share the lookahead evenly: the first
// jobs of all accounts come before the second ones. An account with many jobs therefore cannot hide those of others.
// The recursive part finds the accounts with one index probe each, without reading all queued jobs.
func waitingJobs(ctx context.Context, q pg.Querier, now time.Time) ([]Waiting, error) {
	rows, err := q.Query(ctx, `WITH RECURSIVE account (owner_id) AS (
			(SELECT owner_id FROM job WHERE state = 'queued' ORDER BY owner_id LIMIT 1)
			UNION ALL
			SELECT (SELECT j.owner_id FROM job j WHERE j.state = 'queued' AND j.owner_id > a.owner_id ORDER BY j.owner_id LIMIT 1)
			FROM account a WHERE a.owner_id IS NOT NULL),
		accounts AS MATERIALIZED (SELECT owner_id FROM account WHERE owner_id IS NOT NULL LIMIT $1)
		SELECT w.id, w.owner_id, w.team_id, w.priority, w.created_at, w.pools, w.no_network, w.runtime FROM accounts a, LATERAL (
			SELECT j.id, j.owner_id, j.team_id, j.priority, j.created_at, j.pools, j.no_network, j.runtime,
				row_number() OVER (ORDER BY j.priority DESC, j.created_at, j.id) AS turn
			FROM job j WHERE j.state = 'queued' AND j.owner_id = a.owner_id AND (j.not_before IS NULL OR j.not_before <= $2)
			ORDER BY j.priority DESC, j.created_at, j.id LIMIT (SELECT greatest($3, $4 / count(*)) FROM accounts)) w
		ORDER BY w.turn, w.priority DESC, w.created_at, w.id LIMIT $4`, maxAccounts, now, leastJobs, lookahead)
	if err != nil {
		return nil, fmt.Errorf("list waiting jobs: %w", err)
	}
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w Waiting, err error) {
		err = row.Scan(&w.JobID, &w.OwnerID, &w.TeamID, &w.Priority, &w.SubmittedAt, &w.Pools, &w.NoNetwork, &w.Runtime)
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("read waiting jobs: %w", err)
	}
	return jobs, nil
}

// nextBackoff returns the time at which the next backoff of a queued job ends. It returns the zero time if no job is in
// backoff.
func nextBackoff(ctx context.Context, q pg.Querier, now time.Time) (time.Time, error) {
	var next *time.Time
	err := q.QueryRow(ctx, `SELECT min(not_before) FROM job WHERE state = 'queued' AND not_before > $1`, now).Scan(&next)
	if err != nil {
		return time.Time{}, fmt.Errorf("find the end of the next backoff: %w", err)
	}
	if next == nil {
		return time.Time{}, nil
	}
	return *next, nil
}

func waitingEngines(ctx context.Context, q pg.Querier) ([]Engine, error) {
	rows, err := q.Query(ctx, `SELECT id, owner_id, coalesce(team_id, ''), pool, driver, gpus, slots FROM work
		WHERE kind = 'engine' AND node_id = '' AND desired = 'running' ORDER BY id LIMIT $1`, lookahead)
	if err != nil {
		return nil, fmt.Errorf("list waiting engines: %w", err)
	}
	engines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Engine, err error) {
		err = row.Scan(&e.WorkID, &e.OwnerID, &e.TeamID, &e.Pool, &e.Driver, &e.GPUs, &e.Slots)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read waiting engines: %w", err)
	}
	return engines, nil
}

// explain stores why jobs wait. This is not a state change, so explain appends no event. It writes only changed rows.
// It skips locked jobs until the next pass, so that two schedulers never wait for each other.
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

// starve stores why engines wait, and wakes the watches of engines if a reason has changed. Like explain, it skips
// locked rows.
func starve(ctx context.Context, pool pg.Beginner, decisions []Decision) error {
	ids, reasons := make([]string, len(decisions)), make([]string, len(decisions))
	for i, d := range decisions {
		ids[i], reasons[i] = d.WorkID, assignment.WaitCapacity
		switch d.Reason {
		case job.WaitAccountQuota:
			reasons[i] = assignment.WaitQuota
		case job.WaitTeamQuota:
			reasons[i] = assignment.WaitTeamQuota
		case job.WaitIsolation:
			reasons[i] = assignment.WaitIsolation
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
