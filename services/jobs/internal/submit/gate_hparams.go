package submit

import "errors"

// checkHparams holds the hyperparameters against the recipe's schema.
func checkHparams(d *Draft) error {
	err := checkParams(d.Recipe.ParamsSchema, d.Spec.Hparams)
	if bad, ok := errors.AsType[*paramError](err); ok {
		return refuse(GateHparams, "%s", bad.Error())
	}
	return err
}
