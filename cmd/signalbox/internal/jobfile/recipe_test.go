package jobfile

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSet(t *testing.T) {
	t.Parallel()
	spec := map[string]any{"name": "x", "resources": map[string]any{"pools": []any{map[string]any{"pool": "a"}}}}
	for path, value := range map[string]any{
		"hparams.optim.lr": json.RawMessage("0.1"), "env.A.B": "c", "env.N": json.RawMessage("4"), "limits.running_s": json.RawMessage("9007199254740993"),
		"resources.pools.0.nodes": json.RawMessage("2"), "notes": "n", "retry": json.RawMessage(`{"max":1}`),
	} {
		require.NoError(t, Set(spec, path, value), path)
	}
	require.NoError(t, Set(spec, "retry.backoff_s", json.RawMessage("3")))
	raw, err := json.Marshal(spec)
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"x","notes":"n","env":{"A.B":"c","N":"4"},"hparams":{"optim.lr":0.1},"limits":{"running_s":9007199254740993},
		"retry":{"max":1,"backoff_s":3},"resources":{"pools":[{"pool":"a","nodes":2}]}}`, string(raw))
	for path, problem := range map[string]string{
		"name.first":              "name is a single value",
		"resources.pools.1.nodes": `resources.pools is a list of 1, and "1" must be the index`,
		"resources.pools.a":       "must be the index",
		"resources..pools":        "empty name",
	} {
		require.ErrorContains(t, Set(spec, path, "v"), problem, path)
	}
}

func TestSetRecipe(t *testing.T) {
	t.Parallel()
	recipe := map[string]any{"name": "a/b", "version": "2", "lock": map[string]any{"digest": "d"}}
	const block = "recipe:\n  name: a/b\n  version: \"2\"\n  lock:\n    digest: d\n"
	for name, c := range map[string]struct{ file, want string }{
		"name alone": {
			"# mine\nname: x\n\nrecipe: a/b   # newest\n# more\nresources: {}\n",
			"# mine\nname: x\n\nrecipe:   # newest\n  name: a/b\n  version: \"2\"\n  lock:\n    digest: d\n# more\nresources: {}\n",
		},
		"last":  {"name: x\nrecipe: a/b", "name: x\n" + block[:len(block)-1]},
		"block": {"recipe:\n  name: a/b\n  lock:\n    digest: old\n    framework:\n      name: f\nname: x\n", block + "name: x\n"},
		"flow":  {"recipe: {name: a/b, version: 1}\nname: x\n", block + "name: x\n"},
		"whole request": {
			"api: service/v1\nspec:\n  recipe: a/b\n  name: x\n",
			"api: service/v1\nspec:\n  recipe:\n    name: a/b\n    version: \"2\"\n    lock:\n      digest: d\n  name: x\n",
		},
	} {
		got, err := SetRecipe([]byte(c.file), recipe)
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(got), name)
	}
	for name, file := range map[string]string{
		"JSON":           `{"recipe": "a/b", "name": "x"}`,
		"flow and lines": "recipe: {name: a/b,\n  version: 1\n  }\nname: x\n",
		"none":           "name: x\n",
		"empty":          "",
		"used elsewhere": "recipe: &r a/b\nnotes: *r\n",
	} {
		_, err := SetRecipe([]byte(file), recipe)
		require.Error(t, err, name)
	}
}
