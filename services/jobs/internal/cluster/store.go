package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Store reads the cluster; with a transaction it also writes the orders for its nodes.
type Store struct{ Fleets fleet.Store }

// Lock locks and loads a node for a change. The scheduler takes the same lock, so nothing is placed on the node meanwhile.
func (s Store) Lock(ctx context.Context, tx pgx.Tx, id string) (*fleet.Node, error) {
	var locked string
	err := tx.QueryRow(ctx, `SELECT id FROM node WHERE id = $1 FOR UPDATE`, id).Scan(&locked)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(fleet.SubjectNode, id)
	}
	if err != nil {
		return nil, fmt.Errorf("lock node: %w", err)
	}
	return s.Fleets.Node(ctx, tx, id)
}

// Save stores the order for a node. It fails with a conflict if the node's hold is no longer the given one.
func (s Store) Save(ctx context.Context, tx pgx.Tx, id, from string, o Order) error {
	tag, err := tx.Exec(ctx, `UPDATE node SET hold = $3, hold_reason = $4, drain_mode = $5, drain_deadline = $6
		WHERE id = $1 AND hold = $2`, id, from, o.Hold, o.Reason, o.Mode, o.Deadline)
	if err != nil {
		return fmt.Errorf("store the order for a node: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "node_moved", "node %s was changed meanwhile; try again", id)
	}
	return nil
}

// Remove deletes a locked node and fences its work: from then on the node can neither report it nor fetch anything for
// it. It returns the number of works, which the leader gives up.
func (s Store) Remove(ctx context.Context, tx pgx.Tx, id string, now time.Time) (works int, err error) {
	tag, err := tx.Exec(ctx, `UPDATE work SET fence = fence + 1, updated_at = $2 WHERE node_id = $1 AND released_at IS NULL`, id, now)
	if err != nil {
		return 0, fmt.Errorf("fence the work of a node: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE ingest_token SET revoked_at = $2 WHERE revoked_at IS NULL
		AND work_id IN (SELECT id FROM work WHERE node_id = $1 AND released_at IS NULL)`, id, now)
	if err != nil {
		return 0, fmt.Errorf("revoke the ingest tokens of a node: %w", err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM node WHERE id = $1`, id); err != nil {
		return 0, fmt.Errorf("delete node: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// batch is the maximum number of nodes to drain, and of jobs to resume, that one RunOnce handles.
const batch = 500

// Draining returns the nodes that are being drained.
func (s Store) Draining(ctx context.Context, q pg.Querier) ([]*fleet.Node, error) {
	return s.Fleets.Draining(ctx, q, batch)
}

// JobsToCheckpoint returns the jobs that run on a node and whose current attempt has no checkpoint request from a drain yet.
func (s Store) JobsToCheckpoint(ctx context.Context, q pg.Querier, nodeID string) ([]string, error) {
	return jobIDs(q.Query(ctx, `SELECT DISTINCT j.id FROM work w JOIN job j ON j.id = w.job_id AND j.attempt = w.attempt
		WHERE w.node_id = $1 AND w.released_at IS NULL AND w.kind = 'attempt' AND j.state = 'running'
			AND NOT EXISTS (SELECT FROM drain_pause d WHERE d.job_id = j.id AND d.attempt = j.attempt) ORDER BY j.id`, nodeID))
}

// RecordCheckpointRequest records that a drain requested a checkpoint from the job's current attempt, so that the drain does
// not request another.
func (s Store) RecordCheckpointRequest(ctx context.Context, q pg.Querier, jobID string) error {
	_, err := q.Exec(ctx, `INSERT INTO drain_pause (job_id, attempt, asked_at) SELECT id, attempt, clock_timestamp() FROM job WHERE id = $1
		ON CONFLICT DO NOTHING`, jobID)
	if err != nil {
		return fmt.Errorf("record a checkpoint request: %w", err)
	}
	return nil
}

// PausedByDrain returns the jobs that a drain paused and that are still paused, at most batch jobs.
func (s Store) PausedByDrain(ctx context.Context, q pg.Querier) ([]string, error) {
	return jobIDs(q.Query(ctx, `SELECT j.id FROM drain_pause d JOIN job j ON j.id = d.job_id AND j.attempt = d.attempt
		WHERE j.state = 'paused' ORDER BY j.id LIMIT $1`, batch))
}

// DeleteCheckpointRequests deletes the checkpoint requests of ended jobs, of older attempts and of the given job.
func (s Store) DeleteCheckpointRequests(ctx context.Context, q pg.Querier, jobID string) error {
	_, err := q.Exec(ctx, `DELETE FROM drain_pause d USING job j WHERE j.id = d.job_id
		AND (j.id = $1 OR j.ended_at IS NOT NULL OR j.attempt > d.attempt)`, jobID)
	if err != nil {
		return fmt.Errorf("delete checkpoint requests: %w", err)
	}
	return nil
}

func jobIDs(rows pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, fmt.Errorf("list the jobs of a drain: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the jobs of a drain: %w", err)
	}
	return ids, nil
}

// nodeRows selects one row per node: all pools of the node's fleet, the pools whose work the node may get, the shown
// state, whether the node can get work, whether it is away, the number of its GPUs, and the number of held GPUs; and of a
// Slurm fleet, the report of its agent and the settings of its pools.
const nodeRows = `SELECT f.pools, ` + fleet.PermittedPools + `, CASE WHEN n.state = 'ready' AND n.hold <> '' THEN n.hold ELSE n.state END,
		n.state = 'ready' AND n.hold = '' AND f.state = 'active', n.state IN ('lost', 'unhealthy'), n.gpus,
		least(n.gpus, (SELECT coalesce(sum(w.gpus), 0) FROM work w WHERE w.node_id = n.id AND ` + db.TakesRoom + `)),
		f.kind = 'slurm', n.slurm, ` + fleet.SlurmSettingsOf + `
	FROM node n JOIN fleet f ON f.id = n.fleet_id`

// Sum counts the fleets, nodes, pools and jobs of the cluster.
func (s Store) Sum(ctx context.Context, q pg.Querier) (*Summary, error) {
	sum := &Summary{States: map[string]int{}}
	err := q.QueryRow(ctx, `SELECT (SELECT count(*) FROM fleet), count(*) FILTER (WHERE state = 'queued'),
		count(*) FILTER (WHERE state NOT IN ('queued', 'paused')) FROM job WHERE ended_at IS NULL`).Scan(&sum.Fleets, &sum.JobsQueued, &sum.JobsPlace)
	if err != nil {
		return nil, fmt.Errorf("count fleets and jobs: %w", err)
	}
	pools, err := s.pools(ctx, q)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, nodeRows)
	if err != nil {
		return nil, fmt.Errorf("sum up the nodes: %w", err)
	}
	var n nodeRow
	_, err = pgx.ForEachRow(rows, []any{
		&n.pools, &n.permitted, &n.state, &n.ready, &n.away, &n.gpus, &n.held, &n.isSlurm, &n.slurm.Report, &n.slurm.Pools,
	}, func() error {
		sum.addNode(&n, pools)
		n.slurm = fleet.Slurm{} // the next row must not share anything with it
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sum up the nodes: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		sum.Pools = append(sum.Pools, *pools[name])
	}
	return sum, nil
}

// pools returns every pool that a fleet serves, with the number of jobs queued for it.
func (s Store) pools(ctx context.Context, q pg.Querier) (map[string]*Pool, error) {
	rows, err := q.Query(ctx, `SELECT p.name, coalesce(s.isolation, 'required'), coalesce(s.default_memory_gb, 0), coalesce(s.default_processes, 0),
			coalesce(s.on_silence, 'continue'), coalesce(CASE WHEN p.slurm THEN s.slurm END, '{}'), (SELECT count(*) FROM job j WHERE j.state = 'queued'
			AND j.pools @> jsonb_build_array(jsonb_build_object('pool', p.name)))
		FROM (SELECT u.name, bool_or(f.kind = 'slurm') AS slurm FROM fleet f, unnest(f.pools) AS u (name) GROUP BY u.name) p LEFT JOIN pool s ON s.name = p.name`)
	if err != nil {
		return nil, fmt.Errorf("list the pools: %w", err)
	}
	pools := map[string]*Pool{}
	var name string
	var queued int
	var set Settings
	_, err = pgx.ForEachRow(rows, []any{&name, &set.Isolation, &set.MemoryGB, &set.Processes, &set.OnSilence, &set.Slurm, &queued}, func() error {
		pools[name] = &Pool{Name: name, JobsQueued: queued, Settings: set}
		set = Settings{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the pools: %w", err)
	}
	return pools, nil
}

// Queue returns the queued jobs, and those that a Slurm cluster holds, in scheduling order; an empty pool means all pools.
// Jobs outside the scope have no id, name or detail.
func (s Store) Queue(ctx context.Context, q pg.Querier, scope authn.Scope, pool string, p request.Page) ([]Waiting, error) {
	rows, err := q.Query(ctx, `SELECT `+access.Visible+`,
			id, name, queue_detail, queue_position, pools, gpus, priority, queue_reason, queued_at
		FROM job WHERE (state = 'queued' OR state = 'scheduled' AND batch_held AND queue_reason <> '') AND ($4 = '' OR pools @> jsonb_build_array(jsonb_build_object('pool', $4::text)))
		ORDER BY priority DESC, created_at, id LIMIT $5 OFFSET $6`,
		access.Args(scope, pool, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list the queue: %w", err)
	}
	waiting, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w Waiting, err error) {
		var seen bool
		var pools []job.Pool
		err = row.Scan(&seen, &w.ID, &w.Name, &w.Detail, &w.Position, &pools, &w.GPUs, &w.Priority, &w.Reason, &w.Since)
		for _, p := range pools {
			w.Pools, w.Nodes = append(w.Pools, p.Pool), w.Nodes+p.Nodes
		}
		if !seen {
			w.ID, w.Name, w.Detail = "", "", ""
		}
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	return waiting, nil
}
