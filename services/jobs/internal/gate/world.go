package gate

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/catalog"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// World is what the gates look at.
type World struct {
	Catalog  Catalog
	Projects Projects
	Pools    Pools
	Accounts Accounts
	Hardware Profiles
	// Registries are the hosts, with port where there is one, that images may come from.
	Registries []string
}

// ProjectFacts is where a job belongs.
type ProjectFacts struct {
	ID, Key, Visibility string
	// VisibilityVersion is the version of the visibility, for the rows that repeat it.
	VisibilityVersion int64
	TeamID            string // empty for none
	Archived          bool
}

// PoolFacts is what is known of a pool.
type PoolFacts struct {
	Known bool
	Nodes []NodeFacts
}

// NodeFacts is how large a node is.
type NodeFacts struct {
	ID         string
	GPUs, CPUs int
	MemoryGB   int
}

// Catalog resolves what a submission refers to. Both calls carry the caller's identity.
type Catalog interface {
	// Recipe answers every version of a recipe, none for an unknown one.
	Recipe(ctx context.Context, name string) ([]catalog.Recipe, error)
	Resolve(ctx context.Context, b jobspec.Bindings) (*catalog.Inputs, error)
	// Package answers an accepted package; any other is refused by its gate.
	Package(ctx context.Context, id string) (*catalog.Object, error)
}

// Projects resolves a project; nil for an unknown one.
type Projects interface {
	Project(ctx context.Context, key string) (*ProjectFacts, error)
}

// Pools tells what is known of a pool.
type Pools interface {
	Pool(ctx context.Context, name string) (PoolFacts, error)
}

// Accounts tells what the caller and the team of his project may hold.
type Accounts interface {
	Of(ctx context.Context, userID string) (quota.Account, error)
	OfTeam(ctx context.Context, teamID string) (quota.Account, error)
}

// Profiles tells the hardware configuration in force.
type Profiles interface {
	Current(ctx context.Context) (*hardware.Version, error)
}

// Gates are all gates in their order. Quota stands before hardware: what an account may hold is
// independent of what the pools have, and who asks for more than that is told so by the gate that the
// specification names. A gate that needs facts looks them up itself, so that a
// submission which an earlier gate refuses asks nobody.
func (w *World) Gates() []Gate {
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

func (w *World) recipe(ctx context.Context, d *Draft) error {
	versions, err := w.Catalog.Recipe(ctx, d.Spec.Recipe.Name)
	if err != nil {
		return fmt.Errorf("look up the recipe: %w", err)
	}
	return checkRecipe(d, versions)
}

func (w *World) project(ctx context.Context, d *Draft) (err error) {
	if d.Project, err = w.Projects.Project(ctx, d.Spec.Project); err != nil {
		return fmt.Errorf("look up the project: %w", err)
	}
	return checkProject(authn.ScopeOf(ctx), d)
}

func (w *World) bindings(ctx context.Context, d *Draft) (err error) {
	if err := checkBindingNames(d); err != nil {
		return err
	}
	d.Inputs = &catalog.Inputs{}
	if len(d.Spec.Bindings.Datasets) > 0 || d.Spec.Bindings.Model != "" {
		if d.Inputs, err = w.Catalog.Resolve(ctx, d.Spec.Bindings); err != nil {
			return fmt.Errorf("resolve the bindings: %w", err)
		}
	}
	return checkBindings(d)
}

func (w *World) hardware(ctx context.Context, d *Draft) error {
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

// quota resolves the hardware profiles first: they say how many GPUs are asked for.
func (w *World) quota(ctx context.Context, d *Draft) (err error) {
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
