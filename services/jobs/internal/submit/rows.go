package submit

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gate"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Rows answers the lookups that this service's own rows hold.
type Rows struct {
	DB     *pgxpool.Pool
	Fleets fleet.Store
	Ledger quota.Ledger
}

// Pool tells whether a fleet serves the pool, and how large its nodes are. Lost nodes count: they
// may come back.
func (r *Rows) Pool(ctx context.Context, name string) (gate.PoolFacts, error) {
	nodes, known, err := r.Fleets.InPool(ctx, r.DB, name)
	if err != nil {
		return gate.PoolFacts{}, err
	}
	facts := gate.PoolFacts{Known: known}
	for _, n := range nodes {
		facts.Nodes = append(facts.Nodes, gate.NodeFacts{ID: n.ID, GPUs: n.GPUs, CPUs: n.CPUs, MemoryGB: int(n.MemoryBytes / gigabytes)})
	}
	return facts, nil
}

// OfTeam tells what a team may hold.
func (r *Rows) OfTeam(ctx context.Context, teamID string) (quota.Account, error) {
	return r.Ledger.Team(ctx, r.DB, teamID)
}

// Of tells what an account may hold.
func (r *Rows) Of(ctx context.Context, userID string) (quota.Account, error) {
	return r.Ledger.Account(ctx, r.DB, userID)
}
