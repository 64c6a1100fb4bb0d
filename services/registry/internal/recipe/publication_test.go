package recipe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/recipes"
)

// twoProperties returns a schema that has costly properties and, under another name, harmless ones. The parsers of the
// registry and of the jobs service could read different ones.
func twoProperties(name string) string {
	return `{"type":"object","properties":{"lr":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}},"` + name + `":{"lr":{"type":"number"}}}`
}

func TestManifest_checkPublished(t *testing.T) {
	t.Parallel()
	read := func(members map[string]any) error {
		m, err := readStrict(ownManifest(t, members))
		if err != nil {
			return err
		}
		return m.checkPublished("team")
	}
	require.NoError(t, read(nil))
	param := func(schema map[string]any) map[string]any {
		return map[string]any{"params_schema": map[string]any{"type": "object", "properties": map[string]any{"lr": schema}}}
	}
	input := func(members ...map[string]any) map[string]any { return map[string]any{"inputs": members} }
	for name, c := range map[string]struct {
		members map[string]any
		text    string
	}{
		"unknown member":      {map[string]any{"tilte": "x"}, `the manifest has the member "tilte", which does not exist`},
		"no api":              {map[string]any{"api": nil}, "api"},
		"another project":     {map[string]any{"name": "other/own"}, "does not begin with the project"},
		"bad name":            {map[string]any{"name": "team/Own"}, "is not a name"},
		"path in the name":    {map[string]any{"name": "team/a/b"}, "is not a name"},
		"version with text":   {map[string]any{"version": "1.0-rc"}, "is not a version"},
		"leading zero":        {map[string]any{"version": "01.0"}, "is not a version"},
		"withdrawn":           {map[string]any{"state": "withdrawn"}, "state"},
		"no command":          {map[string]any{"entrypoint": nil}, "entrypoint"},
		"zero byte":           {map[string]any{"entrypoint": []string{"sh", "a\x00b"}}, "entrypoint[1]"},
		"image":               {map[string]any{"framework": map[string]any{"name": "a", "runtime_id": "b", "image": "c"}}, "do not exist yet"},
		"lock outside":        {map[string]any{"requirements": "../lock.txt"}, "requirements"},
		"negative hint":       {map[string]any{"resources_hint": map[string]any{"gpus": -1}}, "resources_hint.gpus"},
		"unknown hint":        {map[string]any{"resources_hint": map[string]any{"gpu": 1}}, "resources_hint"},
		"input twice":         {input(map[string]any{"name": "a", "kind": "dataset"}, map[string]any{"name": "a", "kind": "dataset"}), "two entries"},
		"input outside":       {input(map[string]any{"name": "../a", "kind": "dataset"}), "inputs[0].name"},
		"two models":          {input(map[string]any{"name": "a", "kind": "model"}, map[string]any{"name": "b", "kind": "model"}), "several models"},
		"goal":                {map[string]any{"metrics": []any{map[string]any{"key": "a", "goal": "up"}}}, "metrics[0].goal"},
		"charts":              {map[string]any{"charts": []string{""}}, "charts[0]"},
		"no schema":           {map[string]any{"params_schema": nil}, "params_schema is missing"},
		"schema of a text":    {map[string]any{"params_schema": map[string]any{"type": "string"}}, "params_schema.type"},
		"schema with allOf":   {map[string]any{"params_schema": map[string]any{"type": "object", "allOf": []any{}}}, "params_schema"},
		"parameter with $ref": {param(map[string]any{"type": "number", "$ref": "#"}), `keyword "$ref"`},
		"parameter anyOf":     {param(map[string]any{"type": "number", "anyOf": []any{map[string]any{}}}), `keyword "anyOf"`},
		"lists in lists":      {param(map[string]any{"type": "array", "items": map[string]any{"type": "array", "items": map[string]any{"type": "number"}}}), "items of lr"},
		"extreme number":      {param(map[string]any{"type": "number", "multipleOf": json.Number("1e-99999999")}), "the number"},
		"bad pattern":         {param(map[string]any{"type": "string", "pattern": "("}), "params_schema"},
		"default too large":   {param(map[string]any{"type": "number", "maximum": 1, "default": 2}), "the default of lr"},
		"costly pattern":      {param(map[string]any{"type": "string", "pattern": "^((a?){20}){20}b$"}), "steps to match"},
		"long pattern":        {param(map[string]any{"type": "string", "pattern": strings.Repeat("a", maxPattern+1)}), "at most 128 bytes"},
		"many values":         {param(map[string]any{"type": "number", "enum": make([]int, maxValues+1)}), "enum of lr has 65 values"},
		"huge length":         {param(map[string]any{"type": "string", "maxLength": json.Number("1e30")}), "maxLength of lr"},
		"zero in the title":   {map[string]any{"title": "a\x00b"}, "the character U+0000"},
		"direction of text":   {map[string]any{"title": "a\u202eb"}, "the character U+202E"},
		"line in a name":      {map[string]any{"params_schema": map[string]any{"type": "object", "properties": map[string]any{"a\nb": map[string]any{"type": "number"}}}}, "is not a name"},
		"Properties":          {map[string]any{"params_schema": json.RawMessage(twoProperties("Properties"))}, `the member "Properties"`},
		"no type":             {param(map[string]any{"minimum": 1}), "lr has no type"},
		"bad type":            {param(map[string]any{"type": "int"}), `type of lr is "int"`},
		"required elsewhere":  {map[string]any{"params_schema": map[string]any{"type": "object", "required": []string{"foo"}}}, `requires "foo"`},
		"member in capitals":  {map[string]any{"Name": "sft/lora"}, `the member "Name"`},
		"member of an input":  {input(map[string]any{"name": "a", "kind": "dataset", "requird": true}), `inputs[0] has the member "requird"`},
		"text as command":     {map[string]any{"entrypoint": "python train.py"}, "entrypoint is of the type string; write a list"},
		"number as version":   {map[string]any{"version": 1}, "version is of the type number; write a text"},
		"object as default":   {param(map[string]any{"default": map[string]any{"a": 1}, "type": "number"}), "default of lr has the value"},
		"long description":    {map[string]any{"description": strings.Repeat("x", maxText+1)}, "description has"},
		"no title":            {map[string]any{"title": ""}, "title is missing"},
	} {
		err := read(c.members)
		require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "recipe_invalid"), "%s: %v", name, err)
		require.ErrorContains(t, err, c.text, name)
	}
	_, err := readStrict([]byte(`{} {}`))
	require.ErrorContains(t, err, "line 1")
	_, err = readStrict([]byte(`[]`))
	require.Error(t, err)
}

// People start from a copy of a recipe of the installation, so a project must be able to publish each.
func TestManifest_checkPublished_shippedRecipes(t *testing.T) {
	t.Parallel()
	all, err := readAll(recipes.FS(), recipes.Manifest)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, p := range all {
		if p.Name == customRecipe {
			continue
		}
		m, err := readStrict(p.Text)
		require.NoError(t, err, p.Name)
		namespace, _, _ := strings.Cut(p.Name, "/")
		require.NoError(t, m.checkPublished(namespace), p.Name)
	}
}

func TestPublishRecipe_refusesPackages(t *testing.T) {
	t.Parallel()
	d, _ := openOwn(t)
	ann := as(t, "ann", authn.ProjectEditor)
	twice := strings.Replace(string(ownManifest(t, nil)), `"title":"Own"`, `"title":"Own","title":"Other"`, 1)
	for name, c := range map[string]struct{ id, text string }{
		"two properties":   {d.pack("team", "recipe.json", strings.Replace(string(ownManifest(t, map[string]any{"params_schema": "X"})), `"X"`, twoProperties("properties"), 1)), "duplicate member"},
		"no script":        {d.pack("team", "recipe.json", string(ownManifest(t, nil))), "no file train.py"},
		"no manifest":      {d.pack("team", "train.py", "x"), "no file recipe.json"},
		"large manifest":   {d.pack("team", "recipe.json", `{"title":"`+strings.Repeat("x", maxManifest)+`"}`), "more than 64 KiB"},
		"duplicate member": {d.pack("team", "recipe.json", twice), "duplicate member"},
		"unknown package":  {fmt.Sprintf("pkg_%026d", 999), "no such package"},
	} {
		_, err := d.publish(ann, c.id)
		require.True(t, fault.Is(err, fault.Refused), "%s: %v", name, err)
		require.ErrorContains(t, err, c.text, name)
	}
}

// A page of the list fits into a message, whatever projects publish.
func TestListRecipes_pageOfLargestRecipesFits(t *testing.T) {
	t.Parallel()
	wide := func(n int) string { return strings.Repeat("\U0001F600", n) }
	name := strings.Repeat("n", maxName)
	v := &Version{Manifest: Manifest{
		Name: name + "/" + name, Version: "999999999.999999999.999999999.999999999", Title: wide(maxTitle), Description: wide(maxText), State: StateDeprecated,
		ParamsSchema: []byte(wide(maxManifest)), Metrics: []byte(wide(maxManifest)), Charts: slices.Repeat([]string{wide(maxChart)}, maxCharts),
	}, Digest: "sha256:" + strings.Repeat("0", 64)}
	v.Framework.Name, v.Framework.RuntimeID = wide(maxName), wide(maxName)
	v.ProjectID, v.Project, v.UserName = "prj_01k00000000000000000000001", name, wide(maxName)
	page := &registryv1.ListRecipesResponse{}
	for range request.MaxLimit {
		page.Recipes = append(page.Recipes, toListed(v))
	}
	require.Less(t, proto.Size(page), rpc.MaxMessage)
}
