package cluster

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// maxPoolRows bounds the rows that the gauges of pools show: each is a pool with a reason or a state.
const maxPoolRows = 2000

// readPools returns what the gauges show of each pool that has queued jobs or nodes. A job and a node of several pools count
// in each of them.
func readPools(ctx context.Context, q pg.Querier) (*poolLoad, error) {
	queue, err := pg.All[queueRow](q.Query(ctx, `SELECT p.name AS pool, j.queue_reason AS reason, count(*) AS jobs,
			greatest(0, extract(epoch FROM clock_timestamp() - min(j.queued_at)))::double precision AS oldest
		FROM job j, LATERAL (SELECT DISTINCT part->>'pool' AS name FROM jsonb_array_elements(j.pools) part) p
		WHERE j.state = 'queued' GROUP BY p.name, j.queue_reason ORDER BY p.name, j.queue_reason LIMIT $1`, maxPoolRows))
	if err != nil {
		return nil, fmt.Errorf("count the queued jobs of pools: %w", err)
	}
	nodes, err := pg.All[nodesRow](q.Query(ctx, `SELECT pool, state, usable, count(*) AS nodes, sum(gpus)::bigint AS gpus, sum(held)::bigint AS held
		FROM (SELECT u.pool, CASE WHEN n.state = 'ready' AND n.hold <> '' THEN n.hold ELSE n.state END AS state,
				n.state = 'ready' AND n.hold = '' AND f.state = 'active' AND u.pool = ANY(`+fleet.PermittedPools+`) AS usable, n.gpus,
				least(n.gpus, (SELECT coalesce(sum(w.gpus), 0) FROM work w WHERE w.node_id = n.id AND `+db.TakesRoom+`)) AS held
			FROM node n JOIN fleet f ON f.id = n.fleet_id, unnest(f.pools) AS u (pool)) each_node
		GROUP BY pool, state, usable ORDER BY pool, state, usable LIMIT $1`, maxPoolRows))
	if err != nil {
		return nil, fmt.Errorf("count the nodes of pools: %w", err)
	}
	return &poolLoad{queue: queue, nodes: nodes}, nil
}
