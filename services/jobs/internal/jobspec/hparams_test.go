package jobspec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const testSchema = `{
	"type": "object", "additionalProperties": false, "required": ["model.layers"],
	"properties": {
		"model.layers": {"type": "integer", "minimum": 1, "maximum": 8},
		"optim.lr": {"type": "number", "minimum": 0.000001, "maximum": 0.1},
		"optim.name": {"type": "string", "enum": ["adam", "sgd"], "maxLength": 4},
		"train.amp": {"type": "boolean"},
		"model.sizes": {"type": "array"},
		"val.k": {"enum": [1, 5, 10]}
	}
}`

func TestCheckParams(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		`{"model.layers": 2}`:                                  "",
		`{"model.layers": 2.0, "optim.lr": 1e-3}`:              "",
		`{"model.layers": 2, "val.k": 5.0, "train.amp": true}`: "",
		`{"model.layers": 2, "model.sizes": [1, [2]]}`:         "",
		`{"model.layers": 2, "optim.name": "sgd"}`:             "",
		`{}`:                     "model.layers is required",
		`{"model.layers": 2.5}`:  "model.layers must be of type integer",
		`{"model.layers": "2"}`:  "model.layers must be of type integer",
		`{"model.layers": null}`: "model.layers must be of type integer",
		`{"model.layers": 0}`:    "model.layers must be at least 1, got 0",
		`{"model.layers": 9}`:    "model.layers must be at most 8, got 9",
		`{"model.layers": 2, "optim.lr": 0.10000000000000000001}`: "optim.lr must be at most 0.1, got 0.10000000000000000001",
		`{"model.layers": 2, "optim.lr": 1e999}`:                  "optim.lr must be of type number",
		`{"model.layers": 2, "optim.lr": 1e-99999999}`:            "optim.lr must be of type number",
		`{"model.layers": 2, "optim.name": "lion"}`:               `optim.name must be one of "adam", "sgd"`,
		`{"model.layers": 2, "val.k": 2}`:                         "val.k must be one of 1, 5, 10",
		`{"model.layers": 2, "train.amp": 1}`:                     "train.amp must be of type boolean",
		`{"model.layers": 2, "nope": 1}`:                          "nope is not a parameter of the recipe",
		`{"model.layers": 2, "Optim.LR": 1}`:                      "Optim.LR is not a parameter of the recipe; did you mean optim.lr?",
		`{"model": {"layers": 2}}`:                                "model contains an object; parameters are flat, with dots in their names",
		`{"model.layers": 2, "model.sizes": [{"a": 1}]}`:          "model.sizes contains an object; parameters are flat, with dots in their names",
		`[1]`:        "not a JSON object",
		`{"a": 1} x`: "not a single JSON object",
		`nope`:       "not a JSON object",
	} {
		err := CheckParams([]byte(testSchema), []byte(params))
		if want == "" {
			require.NoError(t, err, params)
			continue
		}
		require.EqualError(t, err, want, params)
	}
	require.NoError(t, CheckParams(nil, []byte(`{"anything": [1, "x", null]}`)), "without a schema anything is allowed")
}

func FuzzCheckParams(f *testing.F) {
	f.Add(`{"model.layers": 2}`)
	f.Add(`{"model.layers": 1e400}`)
	f.Fuzz(func(t *testing.T, params string) {
		// CheckParams must not panic on any input.
		_ = CheckParams([]byte(testSchema), []byte(params))
	})
}
