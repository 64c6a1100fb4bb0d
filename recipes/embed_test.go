package recipes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/paramschema"
	"github.com/signalbox-dev/signalbox/recipes"
)

// manifest contains the fields that every recipe.json must have.
type manifest struct {
	API         string `json:"api"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Framework   struct {
		Name      string `json:"name"`
		RuntimeID string `json:"runtime_id"`
	} `json:"framework"`
	Entrypoint   []string `json:"entrypoint"`
	Requirements string   `json:"requirements"`
	ParamsSchema struct {
		Type                 string                     `json:"type"`
		AdditionalProperties *bool                      `json:"additionalProperties"`
		Properties           map[string]json.RawMessage `json:"properties"`
	} `json:"params_schema"`
	Metrics []struct {
		Key string `json:"key"`
	} `json:"metrics"`
	Charts    []string `json:"charts"`
	Resumable *bool    `json:"resumable"`
	State     string   `json:"state"`
}

// load reads the manifest of the recipe in dir. If the manifest is invalid, it returns an error with all problems.
func load(catalog fs.FS, dir string) (manifest, error) {
	var m manifest
	raw, err := fs.ReadFile(catalog, path.Join(dir, recipes.Manifest))
	if err != nil {
		return m, fmt.Errorf("read manifest: %w", err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("parse manifest of %s: %w", dir, err)
	}
	return m, errors.Join(facts(m, dir), files(catalog, m, dir))
}

// facts checks the values of the manifest's fields.
func facts(m manifest, dir string) error {
	checks := map[string]bool{
		"api must be service/v1":                          m.API == "service/v1",
		"name must be that of the folder":                 m.Name == dir,
		"version must have three numbers":                 regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(m.Version),
		"title and description must not be empty":         m.Title != "" && m.Description != "",
		"framework must have a name and a runtime_id":     m.Framework.Name != "" && m.Framework.RuntimeID != "",
		"params_schema must be the schema of an object":   m.ParamsSchema.Type == "object" && m.ParamsSchema.AdditionalProperties != nil,
		"charts must be up to 12 keys or patterns":        charted(m),
		"resumable must be set":                           m.Resumable != nil,
		"state must be active":                            m.State == "active",
		"entrypoint must be empty only for custom/custom": (len(m.Entrypoint) == 0) == (dir == "custom/custom"),
	}
	var wrong []error
	for rule, holds := range checks {
		if !holds {
			wrong = append(wrong, fmt.Errorf("%s: %s", dir, rule))
		}
	}
	return errors.Join(wrong...)
}

// charted reports whether charts has up to 12 entries of 1 to 256 characters, each the key of a metric of the recipe or a
// pattern with "*".
func charted(m manifest) bool {
	for _, chart := range m.Charts {
		declared := strings.Contains(chart, "*")
		for _, metric := range m.Metrics {
			declared = declared || metric.Key == chart
		}
		if length := utf8.RuneCountInString(chart); !declared || length < 1 || length > 256 {
			return false
		}
	}
	return len(m.Charts) <= 12
}

// files checks that the catalog contains the files that the manifest names.
func files(catalog fs.FS, m manifest, dir string) error {
	named := []string{m.Requirements}
	switch {
	case len(m.Entrypoint) == 3 && m.Entrypoint[1] == "-m":
		named = append(named, strings.ReplaceAll(m.Entrypoint[2], ".", "/")+".py")
	case len(m.Entrypoint) == 2:
		named = append(named, m.Entrypoint[1])
	}
	var missing []error
	for _, name := range named {
		if _, err := fs.Stat(catalog, path.Join(dir, name)); err != nil {
			missing = append(missing, fmt.Errorf("find a file of the manifest: %w", err))
		}
	}
	return errors.Join(missing...)
}

func TestRecipesAreComplete(t *testing.T) {
	t.Parallel()
	found, err := fs.Glob(recipes.FS(), "*/*/"+recipes.Manifest)
	require.NoError(t, err)
	require.Equal(t, []string{
		"custom/custom/recipe.json", "demo/chat-tiny/recipe.json", "pref/dpo/recipe.json", "rl/grpo/recipe.json",
		"sft/full/recipe.json", "sft/lora/recipe.json",
	}, found)
	for _, file := range found {
		t.Run(path.Dir(file), func(t *testing.T) {
			t.Parallel()
			_, err := load(recipes.FS(), path.Dir(file))
			require.NoError(t, err)
		})
	}
}

// damaged is the catalog with the content of one file replaced. If content is nil, the file is missing.
type damaged struct {
	fs.FS
	name    string
	content []byte
}

func (d damaged) ReadFile(name string) ([]byte, error) {
	if name == d.name && d.content != nil {
		return d.content, nil
	}
	return fs.ReadFile(d.FS, name)
}

func (d damaged) Stat(name string) (fs.FileInfo, error) {
	if name == d.name && d.content == nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return fs.Stat(d.FS, name)
}

func TestDamagedRecipeIsDetected(t *testing.T) {
	t.Parallel()
	const dir = "demo/chat-tiny"
	whole, err := fs.ReadFile(recipes.FS(), dir+"/recipe.json")
	require.NoError(t, err)
	replaced := func(old, with string) []byte {
		require.Contains(t, string(whole), old)
		return []byte(strings.Replace(string(whole), old, with, 1))
	}
	cases := map[string]struct {
		file    string
		content []byte
		want    string
	}{
		"not JSON":        {"recipe.json", []byte("{"), "parse manifest"},
		"other name":      {"recipe.json", replaced(`"demo/chat-tiny"`, `"demo/other"`), "name must be that of the folder"},
		"no runtime":      {"recipe.json", replaced(`"numpy-cpu-py311"`, `""`), "framework must have a name"},
		"other chart":     {"recipe.json", replaced(`["val/exact_match", `, `["val/excat_match", `), "charts must be"},
		"empty chart":     {"recipe.json", replaced(`["val/exact_match", `, `["", `), "charts must be"},
		"long chart":      {"recipe.json", replaced(`["val/exact_match", `, `["*`+strings.Repeat("a", 256)+`", `), "charts must be"},
		"many charts":     {"recipe.json", replaced(`["val/exact_match", `, `[`+strings.Repeat(`"*", `, 12)), "charts must be"},
		"missing lock":    {"requirements.lock", nil, "requirements.lock"},
		"missing program": {"chat_tiny/train.py", nil, "chat_tiny/train.py"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(damaged{recipes.FS(), path.Join(dir, c.file), c.content}, dir)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestCatalogContainsAllModulesAndNoOtherFiles(t *testing.T) {
	t.Parallel()
	var embedded []string
	require.NoError(t, fs.WalkDir(recipes.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			embedded = append(embedded, name)
			require.NotContains(t, name, "__pycache__")
			require.NotContains(t, name, "/tests/")
			require.Regexp(t, `\.(json|lock|py)$`, name)
		}
		return err
	}))
	for _, dir := range []string{"demo/chat-tiny", "demo/chat-tiny/chat_tiny", "pref/dpo", "rl/grpo", "sft/full", "sft/lora"} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, entry := range entries {
			if path.Ext(entry.Name()) == ".py" {
				require.Contains(t, embedded, path.Join(dir, entry.Name()))
			}
		}
	}
}

// rule is the schema of one hyperparameter.
type rule struct {
	Type                      string
	Enum                      []string
	MaxLength                 *int
	Minimum, Maximum, Default any
	Description               string
}

func TestHyperparametersHaveBoundsAndDefaults(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"demo/chat-tiny", "pref/dpo", "rl/grpo", "sft/full", "sft/lora"} {
		m, err := load(recipes.FS(), dir)
		require.NoError(t, err)
		require.False(t, *m.ParamsSchema.AdditionalProperties)
		require.NotEmpty(t, m.ParamsSchema.Properties)
		for name, raw := range m.ParamsSchema.Properties {
			var r rule
			require.NoError(t, json.Unmarshal(raw, &r), name)
			require.NotEmpty(t, r.Description, name)
			bounded(t, name, r)
		}
	}
}

// bounded requires that a hyperparameter has a default and that its values are limited.
func bounded(t *testing.T, name string, r rule) {
	t.Helper()
	switch r.Type {
	case "integer", "number":
		value, ok := r.Default.(float64)
		require.True(t, ok, name)
		require.LessOrEqual(t, r.Minimum, value, name)
		require.GreaterOrEqual(t, r.Maximum, value, name)
	case "boolean":
		require.IsType(t, true, r.Default, name)
	case "string":
		require.IsType(t, "", r.Default, name)
		require.True(t, r.MaxLength != nil || len(r.Enum) > 0, name)
	default:
		require.Fail(t, "unknown type", "%s: %s", name, r.Type)
	}
}

// TestTrainingRecipesShareTheirEnvironment requires equal lock files, because a node builds an environment for each of them.
func TestTrainingRecipesShareTheirEnvironment(t *testing.T) {
	t.Parallel()
	want, err := fs.ReadFile(recipes.FS(), "sft/lora/requirements.lock")
	require.NoError(t, err)
	require.NotContains(t, string(want), "://", "a lock has no address of a registry")
	for _, dir := range []string{"pref/dpo", "rl/grpo", "sft/full"} {
		got, err := fs.ReadFile(recipes.FS(), dir+"/requirements.lock")
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), dir)
	}
}

func TestParamsSchema_isValidAndAcceptsDefaults(t *testing.T) {
	t.Parallel()
	found, err := fs.Glob(recipes.FS(), "*/*/"+recipes.Manifest)
	require.NoError(t, err)
	for _, file := range found {
		raw, err := fs.ReadFile(recipes.FS(), file)
		require.NoError(t, err)
		var m struct {
			ParamsSchema json.RawMessage `json:"params_schema"`
		}
		require.NoError(t, json.Unmarshal(raw, &m))
		schema, err := paramschema.Compile(m.ParamsSchema)
		require.NoError(t, err, file)
		defaults := map[string]any{}
		for name, property := range schema.Properties {
			if property.Default != nil {
				defaults[name] = *property.Default
			}
		}
		require.NoError(t, schema.Validate(defaults), file)
	}
}
