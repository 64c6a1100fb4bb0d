package jobapi

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// AuthProjects looks up projects in the auth service for the gates.
type AuthProjects struct {
	Client authpeerv1.ProjectServiceClient
}

// Project returns a project by its key, or nil if it does not exist.
func (p *AuthProjects) Project(ctx context.Context, key string) (*admission.ProjectFacts, error) {
	resp, err := p.Client.GetProject(ctx, &authpeerv1.GetProjectRequest{Project: key})
	if fault.Is(err, fault.Absent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &admission.ProjectFacts{
		ID: resp.GetId(), Key: resp.GetKey(), Visibility: resp.GetVisibility(), VisibilityVersion: resp.GetVisibilityVersion(),
		TeamID: resp.GetTeamId(), Archived: resp.GetArchived(),
	}, nil
}

// Rows implements the lookups of the gates that need only the tables of this service.
type Rows struct {
	DB     *pgxpool.Pool
	Fleets fleet.Store
	Ledger quota.Ledger
	// GiveUp is the time from the loss of a node until its work is given up.
	GiveUp time.Duration
}

// Pool returns whether a fleet serves the pool, the size of its nodes, and its Slurm clusters. A lost node is included
// until its work is given up, because it may come back.
func (r *Rows) Pool(ctx context.Context, name string) (admission.PoolFacts, error) {
	now, err := pg.Now(ctx, r.DB)
	if err != nil {
		return admission.PoolFacts{}, err
	}
	nodes, known, err := r.Fleets.InPool(ctx, r.DB, name, now.Add(-r.GiveUp))
	if err != nil {
		return admission.PoolFacts{}, err
	}
	defaults, err := r.Fleets.Defaults(ctx, r.DB, name)
	if err != nil {
		return admission.PoolFacts{}, err
	}
	facts := admission.PoolFacts{Known: known, MemoryGB: defaults.MemoryGB, Processes: defaults.Processes}
	hosts, err := r.Fleets.Hosts(ctx, r.DB, name)
	if err != nil {
		return admission.PoolFacts{}, err
	}
	facts.OnlySlurm = known && !hosts
	clusters, err := r.Fleets.SlurmFleets(ctx, r.DB, name)
	if err != nil {
		return admission.PoolFacts{}, err
	}
	for _, f := range clusters {
		facts.Clusters = append(facts.Clusters, admission.ClusterFacts{FleetID: f.ID, Slurm: f.Slurm(), Runtimes: f.Runtimes})
	}
	for _, n := range nodes {
		facts.Nodes = append(facts.Nodes, admission.NodeFacts{
			ID: n.ID, Size: job.Room{GPUs: n.GPUs, CPUs: n.CPUs, Memory: n.MemoryBytes}, Permitted: n.Isolates(name), ClosesNetwork: n.ClosesNetwork(),
			Runtimes: n.Runtimes,
		})
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
