package admission

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Inputs holds the lookups that the gates use.
type Inputs struct {
	Catalog  Catalog
	Projects Projects
	Pools    Pools
	Accounts Accounts
	Hardware Profiles
	// Registries are the allowed image registries, as host or host:port.
	Registries []string
}

// ProjectFacts describes the project of a job.
type ProjectFacts struct {
	ID, Key, Visibility string
	// VisibilityVersion is the version of Visibility, stored with the rows that copy it.
	VisibilityVersion int64
	TeamID            string // empty for none
	Archived          bool
}

// PoolFacts describes a pool.
type PoolFacts struct {
	Known bool
	Nodes []NodeFacts
}

// NodeFacts is the size of a node, without its slots.
type NodeFacts struct {
	ID   string
	Size job.Room
}

// Catalog resolves what a submission refers to. All calls use the caller's identity.
type Catalog interface {
	// Recipe returns every version of a recipe, or none if the recipe is unknown.
	Recipe(ctx context.Context, name string) ([]jobspec.Recipe, error)
	Resolve(ctx context.Context, b jobspec.Bindings) (*jobspec.Inputs, error)
	// Package returns an accepted package; for any other it returns the refusal of the gate concerned.
	Package(ctx context.Context, id string) (*jobspec.Object, error)
}

// Projects looks up projects. The result is nil if the project is unknown.
type Projects interface {
	Project(ctx context.Context, key string) (*ProjectFacts, error)
}

// Pools looks up pools.
type Pools interface {
	Pool(ctx context.Context, name string) (PoolFacts, error)
}

// Accounts looks up the quota of the caller and of the project's team.
type Accounts interface {
	Of(ctx context.Context, userID string) (quota.Account, error)
	OfTeam(ctx context.Context, teamID string) (quota.Account, error)
}

// Profiles returns the hardware configuration in force.
type Profiles interface {
	Current(ctx context.Context) (*hardware.Version, error)
}

// Gates returns all gates in order. Quota comes before hardware: an account's limit is independent of the pools'
// hardware, and the specification assigns requests above the limit to the quota gate. Each gate makes its own
// lookups, so no lookup is made for a submission that an earlier gate refuses.
func (w *Inputs) Gates() []Gate {
	recipe := func(d *Draft) bool { return d.Recipe != nil }
	project := func(d *Draft) bool { return d.Project != nil }
	return []Gate{
		{Name: Dialect, Check: pure(checkDialect)},
		{Name: Environment, Check: pure(checkEnvironment)},
		{Name: Package, Check: w.pack},
		{Name: Entrypoint, Check: pure(checkEntrypoint)},
		{Name: Recipe, Check: w.recipe},
		{Name: Hparams, Check: pure(checkHparams), Needs: recipe},
		{Name: Project, Check: w.project},
		{Name: Bindings, Check: w.bindings, Needs: recipe},
		{Name: Image, Check: pure(func(d *Draft) error { return checkImage(d, w.Registries) })},
		{Name: Quota, Check: w.quota, Needs: project},
		{Name: Hardware, Check: w.hardware},
	}
}

func pure(check func(d *Draft) error) func(context.Context, *Draft) error {
	return func(_ context.Context, d *Draft) error { return check(d) }
}

func (w *Inputs) recipe(ctx context.Context, d *Draft) error {
	versions, err := w.Catalog.Recipe(ctx, d.Spec.Recipe.Name)
	if err != nil {
		return fmt.Errorf("look up the recipe: %w", err)
	}
	return checkRecipe(d, versions)
}

func (w *Inputs) project(ctx context.Context, d *Draft) (err error) {
	if d.Project, err = w.Projects.Project(ctx, d.Spec.Project); err != nil {
		return fmt.Errorf("look up the project: %w", err)
	}
	return checkProject(authn.ScopeOf(ctx), d)
}

func (w *Inputs) bindings(ctx context.Context, d *Draft) (err error) {
	if err := checkBindingNames(d); err != nil {
		return err
	}
	d.Inputs = &jobspec.Inputs{}
	if len(d.Spec.Bindings.Datasets) > 0 || d.Spec.Bindings.Model != "" {
		if d.Inputs, err = w.Catalog.Resolve(ctx, d.Spec.Bindings); err != nil {
			return fmt.Errorf("resolve the bindings: %w", err)
		}
	}
	return checkBindings(d)
}

func (w *Inputs) hardware(ctx context.Context, d *Draft) error {
	d.Pools = map[string]PoolFacts{}
	for _, p := range d.Spec.Resources.Pools {
		if _, known := d.Pools[p.Pool]; known {
			continue
		}
		facts, err := w.Pools.Pool(ctx, p.Pool)
		if err != nil {
			return fmt.Errorf("look up the pool: %w", err)
		}
		d.Pools[p.Pool] = facts
	}
	return checkHardware(d)
}

// quota resolves the hardware profiles first, because they determine how many GPUs are requested.
func (w *Inputs) quota(ctx context.Context, d *Draft) (err error) {
	if err := w.profiles(ctx, d); err != nil {
		return err
	}
	if d.Account, err = w.Accounts.Of(ctx, d.Caller.Subject); err != nil {
		return fmt.Errorf("look up the account: %w", err)
	}
	if d.Project.TeamID != "" {
		team, err := w.Accounts.OfTeam(ctx, d.Project.TeamID)
		if err != nil {
			return fmt.Errorf("look up the team: %w", err)
		}
		d.Team = &team
	}
	return checkQuota(d)
}
