package middleware_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func routeOf(rpc, pattern, body string, vars ...string) *router.Route {
	return &router.Route{Route: route.Route{Method: "GET", Pattern: pattern, RPC: rpc, Body: body}, Vars: vars}
}

func TestWithLocationsPrefixesFieldLocation(t *testing.T) {
	t.Parallel()
	whole := &router.Match{Route: routeOf("", "/x/{id}", "*", "id")}
	part := &router.Match{Route: routeOf("", "/x/{id}", "spec", "id")}
	none := &router.Match{Route: routeOf("", "/x/{id}", "", "id")}
	cases := map[string]struct {
		m         *router.Match
		loc, want []any
	}{
		"path before body":   {whole, []any{"id"}, []any{"path", "id"}},
		"body":               {whole, []any{"spec", "pools", 0}, []any{"body", "spec", "pools", 0}},
		"body as a whole":    {whole, []any{}, []any{"body"}},
		"field of the body":  {part, []any{"spec", "pools", 0}, []any{"body", "pools", 0}},
		"beside that field":  {part, []any{"limit"}, []any{"query", "limit"}},
		"query":              {none, []any{"limit"}, []any{"query", "limit"}},
		"query as a whole":   {none, []any{}, []any{"query"}},
		"a header":           {whole, []any{"header", "idempotency-key"}, []any{"header", "idempotency-key"}},
		"a field named path": {whole, []any{"path"}, []any{"body", "path"}},
	}
	for name, tc := range cases {
		f := middleware.WithLocations(&middleware.Call{Match: tc.m}, fault.InvalidFields(fault.At(fault.TypeMissing, "Field required", tc.loc...)))
		require.Equal(t, tc.want, f.Fields[0].Loc, name)
	}
	behind := fault.InvalidFields(fault.At(fault.TypeLessThanEqual, "Input should be less", "after"))
	require.Equal(t, []any{"query", "after"}, middleware.WithLocations(&middleware.Call{Match: none}, behind).Fields[0].Loc)
	require.Equal(t, []any{"header", "last-event-id"}, middleware.WithLocations(&middleware.Call{Match: none, Resumed: true}, behind).Fields[0].Loc)
	require.Equal(t, fault.Absent, middleware.WithLocations(&middleware.Call{Match: none}, fault.Absentf("job", "x")).Kind)
}

func TestWithLocationsAddsSchemaCode(t *testing.T) {
	t.Parallel()
	submit := &middleware.Call{Match: &router.Match{Route: &router.Route{Route: route.Route{RPC: "signalbox.jobs.v1.JobService/SubmitJob", Body: "*"}}}}
	bad := fault.InvalidFields(fault.At(fault.TypeMissing, "Field required", "spec"))
	require.Equal(t, "schema", middleware.WithLocations(submit, bad).Code)
	require.Equal(t, "quota", middleware.WithLocations(submit, fault.New(fault.Forbidden, "quota", "quota: too much")).Code)
	other := &middleware.Call{Match: &router.Match{Route: routeOf("", "/x", "*")}}
	require.Empty(t, middleware.WithLocations(other, bad).Code)
}

func TestWithLocationsMarksOmittedFieldsMissing(t *testing.T) {
	t.Parallel()
	m := &router.Match{Route: routeOf("", "/x/{id}", "*", "id")}
	body := restjson.NewBody(io.NopCloser(strings.NewReader(`{"resources": {"pools": [{"pool": ""}]}}`)), "id")
	require.NoError(t, restjson.New().NewDecoder(body).Decode(&jobsv1.JobSpec{}))
	long := fault.At(fault.TypeStringLong, "String should have at most 3 characters", "name")
	f := middleware.WithLocations(&middleware.Call{Match: m, Body: body}, fault.InvalidFields(
		fault.Field{Loc: []any{"name"}, Type: fault.TypeStringShort, Msg: "String should have at least 1 characters", Ctx: map[string]any{"min_length": 1}},
		fault.At(fault.TypeStringPattern, "String should match", "name"),
		fault.Field{Loc: []any{"priority"}, Type: fault.TypeEnum, Msg: "must not be in list [0]", Input: 0},
		fault.At(fault.TypeStringShort, "String should have at least 1 characters", "resources", "pools", 0, "pool"),
		fault.At(fault.TypeStringPattern, "String should be an id", "id"), long,
	))
	absent := func(name string) fault.Field { return fault.At(fault.TypeMissing, "Field required", "body", name) }
	require.Equal(t, []fault.Field{
		absent("name"), absent("priority"),
		fault.At(fault.TypeStringShort, "String should have at least 1 characters", "body", "resources", "pools", 0, "pool"),
		fault.At(fault.TypeStringPattern, "String should be an id", "path", "id"),
		fault.At(fault.TypeStringLong, "String should have at most 3 characters", "body", "name"),
	}, f.Fields)
	none := middleware.WithLocations(&middleware.Call{Match: m}, fault.InvalidFields(fault.At(fault.TypeStringShort, "short", "name")))
	require.Equal(t, fault.TypeStringShort, none.Fields[0].Type, "without a body no field counts as left out")
}
