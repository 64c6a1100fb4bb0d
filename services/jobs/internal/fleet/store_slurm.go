package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// CodeAgentExists is the error code for the agent of a Slurm fleet that already has one.
const CodeAgentExists = "slurm_agent_exists"

// Admit checks that an agent runs works on what its fleet is for, and that a Slurm fleet has no other agent. It ends the
// sessions of the fleet's lost agents. A Slurm fleet stays locked until tx ends.
func (s Store) Admit(ctx context.Context, tx pgx.Tx, nodeID, runsOn string) error {
	var fleetID, name, kind string
	err := tx.QueryRow(ctx, `SELECT f.id, f.name, f.kind FROM node n JOIN fleet f ON f.id = n.fleet_id WHERE n.id = $1`, nodeID).Scan(&fleetID, &name, &kind)
	if errors.Is(err, pgx.ErrNoRows) {
		return errRemoved(nodeID)
	}
	if err != nil {
		return fmt.Errorf("find the fleet of a node: %w", err)
	}
	switch {
	case kind == KindSlurm && runsOn == KindSlurm:
		return s.admitSlurm(ctx, tx, nodeID, fleetID, name)
	case kind == runsOn:
		return nil
	case kind == KindSlurm:
		return fault.New(fault.Refused, "runs_on", "fleet %s is a Slurm fleet; start its agent with SERVICE_AGENT_RUNS_ON=slurm", name)
	}
	return fault.New(fault.Refused, "runs_on", "fleet %s is of kind %s, but the agent runs works on %s; join a fleet of kind %s", name, kind, runsOn, runsOn)
}

func (s Store) admitSlurm(ctx context.Context, tx pgx.Tx, nodeID, fleetID, name string) error {
	if _, err := tx.Exec(ctx, `SELECT id FROM fleet WHERE id = $1 FOR NO KEY UPDATE`, fleetID); err != nil {
		return fmt.Errorf("lock the fleet of a node: %w", err)
	}
	var other string
	err := tx.QueryRow(ctx, `SELECT name FROM node WHERE fleet_id = $1 AND id <> $2 AND state NOT IN ('joining', 'lost') ORDER BY id LIMIT 1`,
		fleetID, nodeID).Scan(&other)
	if err == nil {
		return fault.New(fault.Conflict, CodeAgentExists, "fleet %s already has an agent, on host %s; stop that agent, and delete its node if it does not return", name, other)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("find the agent of a Slurm fleet: %w", err)
	}
	// A heartbeat must not make a former agent ready again.
	_, err = tx.Exec(ctx, `UPDATE node SET session = session + 1 WHERE fleet_id = $1 AND id <> $2 AND state = 'lost'`, fleetID, nodeID)
	if err != nil {
		return fmt.Errorf("end the sessions of former agents: %w", err)
	}
	return nil
}

// SaveSlurm stores the report of an agent and wakes the scheduler if the report has changed. A report of a superseded
// session is ignored.
func (s Store) SaveSlurm(ctx context.Context, tx pgx.Tx, b Beat, r *SlurmReport) error {
	tag, err := tx.Exec(ctx, `UPDATE node SET slurm = $3 FROM fleet f WHERE node.id = $1 AND node.session = $2
		AND f.id = node.fleet_id AND f.kind = 'slurm' AND node.slurm IS DISTINCT FROM $3`, b.NodeID, b.Session, r)
	if err != nil {
		return fmt.Errorf("store the report of a Slurm cluster: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	return pg.Notify(ctx, tx, db.QueueTopic)
}

// PoolSlurm is a pool with how its jobs run on Slurm.
type PoolSlurm struct {
	Name  string
	Slurm SlurmPool
}

// SlurmPools returns the pools of a node's fleet for which an admin has set how jobs run on Slurm, by name.
func (s Store) SlurmPools(ctx context.Context, q pg.Querier, nodeID string) ([]*PoolSlurm, error) {
	rows, err := q.Query(ctx, `SELECT p.name, p.slurm FROM node n JOIN fleet f ON f.id = n.fleet_id JOIN pool p ON p.name = ANY(f.pools)
		WHERE n.id = $1 AND f.kind = 'slurm' AND p.slurm IS NOT NULL ORDER BY p.name`, nodeID)
	pools, err := pg.All[PoolSlurm](rows, err)
	if err != nil {
		return nil, fmt.Errorf("list the Slurm pools of a node: %w", err)
	}
	return pools, nil
}

// SlurmAgents returns the ids of the agents of the Slurm fleets that serve the pool.
func (s Store) SlurmAgents(ctx context.Context, q pg.Querier, pool string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT n.id FROM node n JOIN fleet f ON f.id = n.fleet_id WHERE f.kind = 'slurm' AND $1 = ANY(f.pools) ORDER BY n.id`, pool)
	return collectIDs(rows, err)
}

// SlurmFleet is a Slurm fleet that serves a pool.
type SlurmFleet struct {
	ID       string
	Runtimes []string // what its agent offers; nil before it has connected
	Report   *SlurmReport
	Settings map[string]SlurmSettings
}

// Slurm returns what is known of the fleet's cluster.
func (f *SlurmFleet) Slurm() *Slurm { return &Slurm{Report: f.Report, Pools: f.Settings} }

// SlurmFleets returns the Slurm fleets that serve the pool and are not disabled, by id.
func (s Store) SlurmFleets(ctx context.Context, q pg.Querier, pool string) ([]*SlurmFleet, error) {
	rows, err := q.Query(ctx, `SELECT f.id, a.runtimes, a.slurm AS report, `+SlurmSettingsOf+` AS settings
		FROM fleet f LEFT JOIN LATERAL (`+SlurmAgentOf+`) a ON true
		WHERE f.kind = 'slurm' AND $1 = ANY(f.pools) AND f.state <> 'disabled' ORDER BY f.id`, pool)
	fleets, err := pg.All[SlurmFleet](rows, err)
	if err != nil {
		return nil, fmt.Errorf("list the Slurm fleets of a pool: %w", err)
	}
	return fleets, nil
}

// Hosts reports whether a fleet that is not disabled serves the pool with nodes that run work themselves.
func (s Store) Hosts(ctx context.Context, q pg.Querier, pool string) (hosts bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM fleet WHERE $1 = ANY(pools) AND kind <> 'slurm' AND state <> 'disabled')`, pool).Scan(&hosts)
	if err != nil {
		return false, fmt.Errorf("find the hosts of a pool: %w", err)
	}
	return hosts, nil
}

// OnlySlurm reports whether Slurm fleets serve the pool, and no fleets of other kinds.
func (s Store) OnlySlurm(ctx context.Context, q pg.Querier, pool string) (only bool, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce(bool_and(kind = 'slurm'), false) FROM fleet WHERE $1 = ANY(pools)`, pool).Scan(&only)
	if err != nil {
		return false, fmt.Errorf("find the kinds of the fleets of a pool: %w", err)
	}
	return only, nil
}
