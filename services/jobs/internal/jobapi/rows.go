package jobapi

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Rows implements the gates' lookups that need only this service's own rows.
type Rows struct {
	DB     *pgxpool.Pool
	Fleets fleet.Store
	Ledger quota.Ledger
}

// Pool returns whether a fleet serves the pool, and the size of its nodes. Lost nodes are included, because they may
// come back.
func (r *Rows) Pool(ctx context.Context, name string) (admission.PoolFacts, error) {
	nodes, known, err := r.Fleets.InPool(ctx, r.DB, name)
	if err != nil {
		return admission.PoolFacts{}, err
	}
	facts := admission.PoolFacts{Known: known}
	for _, n := range nodes {
		facts.Nodes = append(facts.Nodes, admission.NodeFacts{ID: n.ID, GPUs: n.GPUs, CPUs: n.CPUs, MemoryGB: int(n.MemoryBytes / gigabytes)})
	}
	return facts, nil
}

// OfTeam returns the quota account of a team.
func (r *Rows) OfTeam(ctx context.Context, teamID string) (quota.Account, error) {
	return r.Ledger.Team(ctx, r.DB, teamID)
}

// Of returns the quota account of a user.
func (r *Rows) Of(ctx context.Context, userID string) (quota.Account, error) {
	return r.Ledger.Account(ctx, r.DB, userID)
}
