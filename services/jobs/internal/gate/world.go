package submit

import (
	"context"
	"fmt"
)

// World is what the gates look at.
type World struct {
	Catalog  Catalog
	Projects Projects
	Pools    Pools
	Accounts Accounts
	// Registries are the hosts, with port where there is one, that images may come from.
	Registries []string
}

// Gates are all gates in their order. A gate that needs facts looks them up itself, so that a
// submission which an earlier gate refuses asks nobody.
func (w *World) Gates() []Gate {
	return []Gate{
		{GateDialect, pure(checkDialect)},
		{GateEnvironment, pure(checkEnvironment)},
		{GateEntrypoint, pure(checkEntrypoint)},
		{GateRecipe, w.recipe},
		{GateHparams, pure(checkHparams)},
		{GateProject, w.project},
		{GateBindings, w.bindings},
		{GateImage, pure(func(d *Draft) error { return checkImage(d, w.Registries) })},
		{GateHardware, w.hardware},
		{GateQuota, w.quota},
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
	return checkProject(d)
}

func (w *World) bindings(ctx context.Context, d *Draft) (err error) {
	if err := checkBindingNames(d); err != nil {
		return err
	}
	d.Inputs = &Inputs{}
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

func (w *World) quota(ctx context.Context, d *Draft) (err error) {
	if d.Account, err = w.Accounts.Of(ctx, d.Caller.Subject); err != nil {
		return fmt.Errorf("look up the account: %w", err)
	}
	return checkQuota(d)
}
