package solution_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/solution"
)

func TestReadManifest(t *testing.T) {
	t.Parallel()
	good := map[string]string{"name": `"a"`, "version": `"1"`, "recipe": `"sft/tiny@1.0"`}
	with := func(change ...string) json.RawMessage {
		members := maps.Clone(good)
		for i := 0; i < len(change); i += 2 {
			members[change[i]] = change[i+1]
		}
		var parts []string
		for k, v := range members {
			if v != "" {
				parts = append(parts, fmt.Sprintf("%q:%s", k, v))
			}
		}
		return json.RawMessage("{" + strings.Join(parts, ",") + "}")
	}
	m, err := solution.Read(with("toolchain", "null", "requirements", "null", "evaluation_tasks", "null", "Name", `"other"`), "manifest")
	require.NoError(t, err)
	require.Equal(t, []any{"a", 0, true, 0}, []any{m.Name, len(m.Requirements), m.EvaluationTasks == nil, len(m.Toolchain)})
	for name, c := range map[string]struct {
		raw json.RawMessage
		typ string
		loc []any
	}{
		"not an object":          {json.RawMessage(`[1]`), fault.TypeDictType, []any{"manifest"}},
		"null":                   {json.RawMessage(`null`), fault.TypeDictType, []any{"manifest"}},
		"not JSON":               {json.RawMessage(`{`), fault.TypeValue, []any{"manifest"}},
		"duplicate member":       {json.RawMessage(`{"name":"a","name":"b"}`), fault.TypeValue, []any{"manifest"}},
		"integer not exact":      {with("seats", "9007199254740993"), fault.TypeValue, []any{"manifest"}},
		"no name":                {with("name", ""), fault.TypeMissing, []any{"manifest", "name"}},
		"name in wrong case":     {with("name", "", "Name", `"a"`), fault.TypeMissing, []any{"manifest", "name"}},
		"null name":              {with("name", "null"), fault.TypeMissing, []any{"manifest", "name"}},
		"number as name":         {with("name", "1"), fault.TypeStringType, []any{"manifest", "name"}},
		"name with space":        {with("name", `"a b"`), fault.TypeStringPattern, []any{"manifest", "name"}},
		"empty version":          {with("version", `""`), fault.TypeStringPattern, []any{"manifest", "version"}},
		"version with @":         {with("version", `"1@2"`), fault.TypeStringPattern, []any{"manifest", "version"}},
		"no recipe":              {with("recipe", ""), fault.TypeMissing, []any{"manifest", "recipe"}},
		"recipe without version": {with("recipe", `"sft/tiny"`), fault.TypeStringPattern, []any{"manifest", "recipe"}},
		"requirements not list":  {with("requirements", `{}`), fault.TypeListType, []any{"manifest", "requirements"}},
		"requirement not object": {with("requirements", `[{},1]`), fault.TypeDictType, []any{"manifest", "requirements", 1}},
		"too many requirements":  {with("requirements", "["+strings.Repeat("{},", 1000)+"{}]"), fault.TypeLong, []any{"manifest", "requirements"}},
		"toolchain not object":   {with("toolchain", `"x"`), fault.TypeDictType, []any{"manifest", "toolchain"}},
		"tasks not integer":      {with("evaluation_tasks", `1.5`), fault.TypeIntType, []any{"manifest", "evaluation_tasks"}},
		"zero tasks":             {with("evaluation_tasks", `0`), fault.TypeGreaterThanEqual, []any{"manifest", "evaluation_tasks"}},
		"too many tasks":         {with("evaluation_tasks", `100000001`), fault.TypeLessThanEqual, []any{"manifest", "evaluation_tasks"}},
	} {
		_, err := solution.Read(c.raw, "manifest")
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		f := fault.From(err).Fields
		require.Len(t, f, 1, name)
		require.Equal(t, []any{c.typ, c.loc}, []any{f[0].Type, f[0].Loc}, name)
	}
	_, err = solution.Read(json.RawMessage(`{}`), "manifest")
	require.Len(t, fault.From(err).Fields, 3, "every invalid field is reported")
}

func TestCreateSolution(t *testing.T) {
	t.Parallel()
	d := open(t)
	create := func(text string) (*registryv1.Solution, string, error) {
		ctx, h := as(t, "usr_1", authn.ProjectEditor, "")
		out, err := d.solutions.CreateSolution(ctx, &registryv1.CreateSolutionRequest{Project: "team", Manifest: []byte(text)})
		return out, h.status(), err
	}
	made, status, err := create(manifest)
	require.NoError(t, err)
	require.Empty(t, status)
	require.Equal(t, []string{"support", "1.0", "team", "usr_1", "team"}, []string{made.GetName(), made.GetVersion(), made.GetProject(), made.GetOwner(), made.GetVisibility()})
	again, status, err := create(string(reordered()))
	require.NoError(t, err)
	require.Equal(t, []string{"200", made.GetId(), made.GetDigest()}, []string{status, again.GetId(), again.GetDigest()})
	_, _, err = create(strings.Replace(manifest, `"seats":3`, `"seats":4`, 1))
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "solution_exists"), "%v", err)
	_, _, err = d.apply(func(in *request) { in.Solution = []byte(strings.Replace(manifest, `"seats":3`, `"seats":4`, 1)) })
	require.True(t, fault.HasCode(err, "solution_exists"), "an application cannot introduce a different manifest either: %v", err)
	require.Zero(t, d.count("solution_application"))
	next, _, err := create(strings.Replace(manifest, `"1.0"`, `"1.1"`, 1))
	require.NoError(t, err)

	ctx, _ := as(t, "usr_1", authn.ProjectViewer, "")
	list, err := d.solutions.ListSolutions(ctx, &registryv1.ListSolutionsRequest{Name: new("support")})
	require.NoError(t, err)
	require.Equal(t, []string{next.GetId(), made.GetId()}, []string{list.GetSolutions()[0].GetId(), list.GetSolutions()[1].GetId()}, "newest first")
	got, err := d.solutions.GetSolution(ctx, &registryv1.GetSolutionRequest{SolutionId: made.GetId()})
	require.NoError(t, err)
	require.JSONEq(t, manifest, string(got.GetManifest()))
	stranger, _ := as(t, "usr_9", "", "")
	_, err = d.solutions.GetSolution(stranger, &registryv1.GetSolutionRequest{SolutionId: made.GetId()})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	list, err = d.solutions.ListSolutions(stranger, &registryv1.ListSolutionsRequest{})
	require.NoError(t, err)
	require.Empty(t, list.GetSolutions())
	_, err = d.solutions.GetSolution(ctx, &registryv1.GetSolutionRequest{SolutionId: "sol_1"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

func TestCreateSolutionApplication_solutionForms(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, bad := range []string{`1`, `true`, `[]`, `""`, `"support"`, `"support@"`, `"@1"`, `"a@b@c"`} {
		_, _, err := d.apply(func(in *request) { in.Solution = []byte(bad) })
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", bad, err)
		require.Equal(t, []any{"solution"}, fault.From(err).Fields[0].Loc, bad)
	}
}
