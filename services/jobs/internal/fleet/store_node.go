package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// PermittedPools is the SQL expression for the pools of the node n in the fleet f whose work the node may get. A node that
// isolates the work that it runs may get work of all its pools. A node that does not isolate work, but is
// configured to run work anyway, may get work of pools that require no isolation.
//
// For the agent of a Slurm fleet it is empty, because that depends on the agent's tests: see Slurm.Permits.
const PermittedPools = `CASE WHEN f.kind = 'slurm' THEN '{}' WHEN n.boundary->>'kind' IN ('own_user', 'user_namespace') THEN f.pools
		WHEN n.boundary->>'kind' = 'none' AND n.boundary->>'required' = 'false'
		THEN ARRAY(SELECT p.name FROM pool p WHERE p.name = ANY(f.pools) AND p.isolation = 'none' ORDER BY p.name)
		ELSE '{}' END`

// SlurmSettingsOf is the SQL expression for the settings of the pools of the fleet f by name, as Slurm.Pools, or NULL if f
// is not a Slurm fleet.
const SlurmSettingsOf = `CASE WHEN f.kind = 'slurm' THEN (SELECT jsonb_object_agg(p.name, jsonb_build_object('slurm', p.slurm,
		'isolation', p.isolation)) FROM pool p WHERE p.name = ANY(f.pools)) END`

const nodeSelect = `SELECT n.id, n.fleet_id, n.name, n.state, f.kind, f.pools, ` + PermittedPools + ` AS permitted, n.boundary,
		n.slurm AS report, ` + SlurmSettingsOf + ` AS settings, n.cpus, n.memory_bytes, n.gpus, n.limits,
		n.version, n.slots, n.drivers, n.runtimes, n.joined_at, n.last_seen_at, coalesce(u.gpus, 0) AS used_gpus, coalesce(u.slots, 0) AS used_slots,
		coalesce(u.cpus, 0) AS used_cpus, coalesce(u.memory, 0)::bigint AS used_memory, coalesce(u.works, 0) AS works,
		n.hold, n.hold_reason, n.drain_mode, n.drain_deadline
	FROM node n JOIN fleet f ON f.id = n.fleet_id
		LEFT JOIN LATERAL (SELECT sum(h.gpus) AS gpus, sum(h.slots) AS slots, sum(h.cpus) AS cpus, sum(h.memory_bytes) AS memory,
			(SELECT count(*) FROM work w WHERE w.node_id = n.id AND w.released_at IS NULL) AS works
			FROM (SELECT w.* FROM work w WHERE w.node_id = n.id AND ` + db.TakesRoom + `) h) u ON true`

// nodeRow is a row of nodeSelect.
type nodeRow struct {
	Node

	UsedGPUs, UsedSlots, UsedCPUs int
	UsedMemory                    int64
	Report                        *SlurmReport
	Settings                      map[string]SlurmSettings
}

func (r *nodeRow) node() *Node {
	n := &r.Node
	n.GPUsFree, n.SlotsFree = max(0, n.GPUs-r.UsedGPUs), max(0, n.SlotsTotal-r.UsedSlots)
	n.CPUsFree, n.MemoryFree = max(0, n.CPUs-r.UsedCPUs), max(0, n.MemoryBytes-r.UsedMemory)
	if n.Kind == KindSlurm {
		n.Slurm = &Slurm{Report: r.Report, Pools: r.Settings}
		n.Permitted = n.Slurm.Permitted(n.Pools)
	}
	return n
}

// Nodes returns the nodes by name.
func (s Store) Nodes(ctx context.Context, q pg.Querier, p request.Page) ([]*Node, error) {
	rows, err := q.Query(ctx, nodeSelect+` ORDER BY n.name, n.id LIMIT $1 OFFSET $2`, p.FetchLimit(), p.Offset)
	return collectNodes(rows, err)
}

// placeable selects the nodes that may get work: ready, without a hold, and in an active fleet.
const placeable = ` n.state = 'ready' AND n.hold = '' AND f.state = 'active'`

// Node returns a node.
func (s Store) Node(ctx context.Context, q pg.Querier, id string) (*Node, error) {
	rows, err := q.Query(ctx, nodeSelect+` WHERE n.id = $1`, id)
	nodes, err := collectNodes(rows, err)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, fault.Absentf(SubjectNode, id)
	}
	return nodes[0], nil
}

// Ready returns the nodes that may get work, with their free capacity.
func (s Store) Ready(ctx context.Context, q pg.Querier) ([]*Node, error) {
	rows, err := q.Query(ctx, nodeSelect+` WHERE`+placeable+` ORDER BY n.id`)
	return collectNodes(rows, err)
}

// Draining returns the nodes that are being drained, at most limit of them.
func (s Store) Draining(ctx context.Context, q pg.Querier, limit int) ([]*Node, error) {
	rows, err := q.Query(ctx, nodeSelect+` WHERE n.hold = 'draining' ORDER BY n.id LIMIT $1`, limit)
	return collectNodes(rows, err)
}

// InPool returns the nodes of a pool in any state that run work themselves, except those that were lost before the given
// time. The result known is true if a fleet that is not disabled serves the pool.
func (s Store) InPool(ctx context.Context, q pg.Querier, pool string, lostBefore time.Time) (nodes []*Node, known bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM fleet WHERE $1 = ANY(pools) AND state <> 'disabled')`, pool).Scan(&known)
	if err != nil {
		return nil, false, fmt.Errorf("find pool: %w", err)
	}
	rows, err := q.Query(ctx, nodeSelect+` WHERE $1 = ANY(f.pools) AND f.state <> 'disabled' AND f.kind <> 'slurm'
		AND (n.lost_at IS NULL OR n.lost_at >= $2) ORDER BY n.id`, pool, lostBefore)
	nodes, err = collectNodes(rows, err)
	return nodes, known, err
}

// Defaults are the limits of jobs that request none.
type Defaults struct {
	MemoryGB  int // 0 means no limit
	Processes int // 0 means the usual number
}

// Defaults returns the limits that jobs of the pool get if they request none.
func (s Store) Defaults(ctx context.Context, q pg.Querier, pool string) (d Defaults, err error) {
	err = q.QueryRow(ctx, `SELECT default_memory_gb, default_processes FROM pool WHERE name = $1`, pool).Scan(&d.MemoryGB, &d.Processes)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // A pool has a row only once an admin has changed its settings.
		return d, fmt.Errorf("read the default limits of a pool: %w", err)
	}
	return d, nil
}

// StopsOnSilence reports whether attempts end themselves when they cannot renew their lease, because one of their pools
// is set so.
func (s Store) StopsOnSilence(ctx context.Context, q pg.Querier, pools []string) (stops bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pool WHERE name = ANY($1) AND on_silence = 'stop')`, pools).Scan(&stops)
	if err != nil {
		return false, fmt.Errorf("read the on_silence setting of a pool: %w", err)
	}
	return stops, nil
}

// Withholds reports whether the node must not get work of the pool, because by the newest report of its agent it would
// not isolate the work as the pool requires. The node is not the agent of a Slurm fleet.
func (s Store) Withholds(ctx context.Context, q pg.Querier, id, pool string) (withheld bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM node n JOIN fleet f ON f.id = n.fleet_id
		WHERE n.id = $1 AND n.boundary IS NOT NULL AND NOT $2 = ANY(`+PermittedPools+`))`, id, pool).Scan(&withheld)
	if err != nil {
		return false, fmt.Errorf("read whether a node isolates the work of a pool: %w", err)
	}
	return withheld, nil
}

// ClosesNetwork reports whether the node can run work without network access, by the newest report of its agent.
func (s Store) ClosesNetwork(ctx context.Context, q pg.Querier, id string) (closes bool, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce((SELECT (boundary->>'closes_network')::boolean FROM node WHERE id = $1), false)`, id).Scan(&closes)
	if err != nil {
		return false, fmt.Errorf("read whether a node can run work without network access: %w", err)
	}
	return closes, nil
}

// Offers reports whether the node can run jobs that need the runtime, by the newest report of its agent.
func (s Store) Offers(ctx context.Context, q pg.Querier, id, runtime string) (offers bool, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce((SELECT $2 = ANY(runtimes) FROM node WHERE id = $1), false)`, id, runtime).Scan(&offers)
	if err != nil {
		return false, fmt.Errorf("read the environments that a node offers: %w", err)
	}
	return offers, nil
}

// LockReady locks nodes in the order of their ids and returns those that may still get work. It also locks the settings
// of the nodes' pools that require no isolation or that have settings for Slurm. If an admin changes such a pool at the
// same time, that change either waits or is visible in the result.
func (s Store) LockReady(ctx context.Context, tx pgx.Tx, ids []string) ([]*Node, error) {
	if _, err := tx.Exec(ctx, `SELECT id FROM node WHERE id = ANY($1) ORDER BY id FOR UPDATE`, ids); err != nil {
		return nil, fmt.Errorf("lock nodes: %w", err)
	}
	_, err := tx.Exec(ctx, `SELECT name FROM pool WHERE (isolation = 'none' OR slurm IS NOT NULL) AND name IN (
		SELECT unnest(f.pools) FROM node n JOIN fleet f ON f.id = n.fleet_id WHERE n.id = ANY($1)) ORDER BY name FOR SHARE`, ids)
	if err != nil {
		return nil, fmt.Errorf("lock the pools of nodes: %w", err)
	}
	rows, err := tx.Query(ctx, nodeSelect+` WHERE n.id = ANY($1) AND`+placeable+` ORDER BY n.id`, ids)
	return collectNodes(rows, err)
}

func collectNodes(rows pgx.Rows, err error) ([]*Node, error) {
	found, err := pg.All[nodeRow](rows, err)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]*Node, len(found))
	for i, r := range found {
		nodes[i] = r.node()
	}
	return nodes, nil
}

// InsertNode stores a node that has joined.
func (s Store) InsertNode(ctx context.Context, tx pgx.Tx, n *Node) error {
	_, err := tx.Exec(ctx, `INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at)
		VALUES (@id, @fleet_id, @name, @state, @cpus, @memory_bytes, @gpus, @slots, @limits, @version, @joined_at)`, pgx.StrictNamedArgs{
		"id": n.ID, "fleet_id": n.FleetID, "name": n.Name, "state": n.State, "cpus": n.CPUs, "memory_bytes": n.MemoryBytes,
		"gpus": n.GPUs, "slots": n.SlotsTotal, "limits": n.Limits, "version": n.Version, "joined_at": n.JoinedAt,
	})
	if err != nil {
		return fmt.Errorf("insert node: %w", err)
	}
	return nil
}

// Open begins a new session of a node, so its older streams can no longer write. It also returns the previous state.
func (s Store) Open(ctx context.Context, tx pgx.Tx, h Hello, slots int, now time.Time) (session int64, before string, err error) {
	err = tx.QueryRow(ctx, `WITH old AS (SELECT id, state FROM node WHERE id = @id FOR UPDATE)
		UPDATE node SET session = session + 1, incarnation = @incarnation, cpus = @cpus, memory_bytes = @memory_bytes,
			gpus = @gpus, limits = @limits, version = @version, drivers = @drivers, runtimes = @runtimes, boundary = @boundary, slots = @slots, last_seen_at = @now,
			slurm = coalesce(@slurm, slurm),
			lost_at = NULL, state = CASE WHEN node.state IN ('joining', 'lost') THEN 'ready' ELSE node.state END
		FROM old WHERE node.id = old.id RETURNING session, old.state`, pgx.StrictNamedArgs{
		"id": h.NodeID, "incarnation": h.Incarnation, "cpus": h.Inventory.CPUs, "memory_bytes": h.Inventory.MemoryBytes,
		"gpus": h.Inventory.GPUs, "limits": h.Inventory.Limits, "version": h.Inventory.Version, "drivers": h.Drivers,
		"runtimes": h.Runtimes, "boundary": h.Boundary, "slots": slots, "now": now, "slurm": h.Slurm,
	}).Scan(&session, &before)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", errRemoved(h.NodeID)
	}
	if err != nil {
		return 0, "", fmt.Errorf("open a session of a node: %w", err)
	}
	if err := pg.Notify(ctx, tx, db.NodeTopic(h.NodeID)); err != nil {
		return 0, "", err
	}
	return session, before, pg.Notify(ctx, tx, db.QueueTopic)
}

// Session returns the newest session of a node. A node that was removed is refused.
func (s Store) Session(ctx context.Context, q pg.Querier, nodeID string) (int64, error) {
	var session int64
	err := q.QueryRow(ctx, `SELECT session FROM node WHERE id = $1`, nodeID).Scan(&session)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errRemoved(nodeID)
	}
	if err != nil {
		return 0, fmt.Errorf("read the session of a node: %w", err)
	}
	return session, nil
}

// errRemoved refuses the certificate of a node that has no row. The agent ends when it receives this code, because every
// further attempt would fail in the same way.
func errRemoved(nodeID string) error {
	return fault.New(fault.Unauthenticated, CodeRemoved, "node %s was removed; join again with a new join token", nodeID)
}
