package admission

import (
	"errors"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// checkHparams checks the hyperparameters against the recipe's schema.
func checkHparams(d *Draft) error {
	err := jobspec.CheckParams(d.Recipe.ParamsSchema, d.Spec.Hparams)
	if bad, ok := errors.AsType[*jobspec.ParamError](err); ok {
		return Refuse(Hparams, "%s", bad.Error())
	}
	return err
}
