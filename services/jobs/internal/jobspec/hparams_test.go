package jobspec

import (
	"errors"
	"strings"
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
	require.NoError(t, CheckParams(nil, []byte(`{"anything": [1, "x", null]}`)), "without a schema, any parameters must be allowed")
}

// keywords is a schema that uses parts of JSON Schema that no shipped recipe uses yet.
const keywords = `{
	"minProperties": 1, "dependentRequired": {"optim.momentum": ["optim.name"]},
	"$defs": {"share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}},
	"properties": {
		"data.held_out": {"$ref": "#/$defs/share"},
		"data.mix": {"type": "array", "items": {"$ref": "#/$defs/share"}, "uniqueItems": true, "maxItems": 3},
		"model.heads": {"type": ["integer", "null"], "multipleOf": 2},
		"model.name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2},
		"optim.schedule": {"anyOf": [{"const": "none"}, {"type": "integer", "minimum": 10}]},
		"optim.width": {"allOf": [{"type": "integer"}, {"minimum": 1}, {"maximum": 1000000}]},
		"train.any": {"minimum": 0}
	}
}`

func TestCheckParams_keywords(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		`{"data.held_out": 1, "data.mix": [0.5, 0.25], "model.heads": null, "model.name": "ab"}`: "",
		`{"optim.schedule": "none", "unknown": 1e-99999999}`:                                     "",
		`{"optim.schedule": 10, "train.any": "x"}`:                                               "",
		`{}`:                                     "the parameters: minProperties: got 0, want 1",
		`{"optim.momentum": 1}`:                  "the parameters: properties 'optim.name' required, if 'optim.momentum' exists",
		`{"data.held_out": 0}`:                   "data.held_out: exclusiveMinimum: got 0, want 0",
		`{"data.held_out": 1e3}`:                 "data.held_out must be at most 1, got 1e3",
		`{"data.mix": [0.5, 1.50]}`:              "data.mix[1] must be at most 1, got 1.50",
		`{"data.mix": [0.5, "x"]}`:               "data.mix[1] must be of type number",
		`{"data.mix": [0.5, 1e-99999999]}`:       "data.mix[1] must be of type number",
		`{"data.mix": [0.5, 0.50]}`:              "data.mix: items at 0 and 1 are equal",
		`{"model.heads": 3, "model.name": "A"}`:  "model.heads: multipleOf: got 3, want 2",
		`{"model.heads": true}`:                  "model.heads must be of type null or integer",
		`{"model.heads": 1e999}`:                 "model.heads is out of range",
		`{"model.name": "A"}`:                    "model.name must have at least 2 characters",
		`{"model.name": "AB"}`:                   "model.name: 'AB' does not match pattern '^[a-z]+$'",
		`{"optim.schedule": 1}`:                  "optim.schedule: 'anyOf' failed",
		`{"optim.width": 0}`:                     "optim.width must be at least 1, got 0",
		`{"optim.width": 1000001, "zzz": [{}]}`:  "zzz contains an object; parameters are flat, with dots in their names",
		`{"optim.width": 1000001, "zzz": [[]]}`:  "optim.width must be at most 1000000, got 1000001",
		`{"train.any": 1e999}`:                   "train.any is out of range",
		`{"train.any": -1, "optim.schedule": 1}`: "optim.schedule: 'anyOf' failed",
	} {
		err := CheckParams([]byte(keywords), []byte(params))
		if want == "" {
			require.NoError(t, err, params)
			continue
		}
		require.EqualError(t, err, want, params)
	}
}

// Every element of a list can be compared with every value of an enumeration.
func TestCheckParams_boundsLists(t *testing.T) {
	t.Parallel()
	schema := []byte(`{"type":"object","properties":{"a":{"type":"array","items":{"enum":[1,2]}}}}`)
	list := func(n int) []byte { return []byte(`{"a":[1` + strings.Repeat(",1", n-1) + `]}`) }
	require.NoError(t, CheckParams(schema, list(maxElements)))
	err := CheckParams(schema, list(maxElements+1))
	require.ErrorContains(t, err, "have 4097 elements together; write at most 4096")
	require.ErrorAs(t, err, new(*ParamError))
}

func TestCheckParams_brokenSchema(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{`, `3`, `{"properties": 3}`, `{"properties": {"a": {"type": "int"}}}`, `{"properties": {"a": {"pattern": "("}}}`,
		`{"$ref": "file:///etc/hostname"}`, `{"$ref": "https://example.com/schema"}`, `{"$schema": "https://example.com/schema"}`,
	} {
		err := CheckParams([]byte(schema), []byte(`{}`))
		require.ErrorContains(t, err, "read the recipe's params_schema", schema)
		var bad *ParamError
		require.NotErrorAs(t, err, &bad, schema)
	}
}

func FuzzCheckParams(f *testing.F) {
	f.Add(`{"model.layers": 2}`)
	f.Add(`{"model.layers": 1e400}`)
	f.Add(`{"data.mix": [0.5, 1e-99999999, 0.50], "model.heads": 3, "train.any": -1}`)
	f.Fuzz(func(t *testing.T, params string) {
		// CheckParams must not panic on any input, and must report the same fault each time.
		for _, schema := range []string{testSchema, keywords} {
			err := CheckParams([]byte(schema), []byte(params))
			require.Equal(t, err, CheckParams([]byte(schema), []byte(params)))
			var bad *ParamError
			require.True(t, err == nil || errors.As(err, &bad), err)
		}
	})
}

func BenchmarkCheckParams(b *testing.B) {
	for b.Loop() {
		require.NoError(b, CheckParams([]byte(testSchema), []byte(`{"model.layers": 2, "optim.lr": 1e-3}`)))
	}
}
