package admission

import (
	"cmp"
	"errors"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

const stateWithdrawn = "withdrawn"

// checkRecipe compares recipe.lock.json with the catalog's entry for the recipe version of the spec: name, version,
// digest and framework.runtime_id.
func checkRecipe(d *Draft, versions []jobspec.Recipe) error {
	ref := d.Spec.Recipe
	if len(versions) == 0 {
		return Refuse(Recipe, "the catalog has no recipe %s", ref.Name)
	}
	for i := range versions {
		if versions[i].Version == ref.Version {
			d.Recipe = &versions[i]
		}
	}
	switch {
	case d.Recipe == nil:
		return Refuse(Recipe, "the catalog has no version %s of %s", ref.Version, ref.Name)
	case d.Recipe.State == stateWithdrawn:
		return Refuse(Recipe, "version %s of %s is withdrawn; choose another version", ref.Version, ref.Name)
	}
	return cmp.Or(
		sameField("name", ref.Lock.Name, d.Recipe.Name),
		sameField("version", ref.Lock.Version, d.Recipe.Version),
		sameField("digest", ref.Lock.Digest, d.Recipe.Digest),
		sameField("framework.runtime_id", ref.Lock.Framework.RuntimeID, d.Recipe.Framework.RuntimeID),
	)
}

// checkKeeping adds the goal that the recipe states for the metric of checkpoint.keep_best, and refuses a metric without a
// goal.
func checkKeeping(d *Draft) error {
	c := &d.Spec.Checkpoint
	if c.KeepBest == "" || c.KeepBestGoal != "" {
		return nil
	}
	if c.KeepBestGoal = d.Recipe.Goals[c.KeepBest]; c.KeepBestGoal == "" {
		return Refuse(Recipe, "%s does not state which values of %q in spec.checkpoint.keep_best are better; "+
			"set spec.checkpoint.keep_best_goal to minimize or maximize", d.Recipe.Name, c.KeepBest)
	}
	return nil
}

func sameField(name, lock, catalog string) error {
	if lock == catalog {
		return nil
	}
	return Refuse(Recipe, "%s is %s in recipe.lock.json and %s in the catalog; "+
		"GET /api/recipes/{namespace}/{name}/versions/{version}/lock returns the current lock", name, lock, catalog)
}

// checkHparams checks the hyperparameters against the recipe's schema.
func checkHparams(d *Draft) error {
	err := jobspec.CheckParams(d.Recipe.ParamsSchema, d.Spec.Hparams)
	if bad, ok := errors.AsType[*jobspec.ParamError](err); ok {
		return Refuse(Hparams, "%s", bad.Error())
	}
	return err
}
