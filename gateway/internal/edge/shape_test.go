package edge_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/edge"
	"github.com/signalbox-dev/signalbox/gateway/internal/match"
	"github.com/signalbox-dev/signalbox/gen/route"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func routeOf(rpc, pattern, body string, vars ...string) *match.Route {
	return &match.Route{Route: route.Route{Method: "GET", Pattern: pattern, RPC: rpc, Body: body}, Vars: vars}
}

func shape(t *testing.T, rt *match.Route) *edge.Shape {
	t.Helper()
	s, err := edge.NewShape(rt)
	require.NoError(t, err)
	return s
}

// every is a shape whose query has a field of every kind that one may have: no public request has
// them all, so it is a message that is public in another place.
func every(t *testing.T) *edge.Shape {
	t.Helper()
	return edge.ShapeOf(new(jobsv1.Job).ProtoReflect().Descriptor())
}

func TestQueriesAreReadStrictly(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		raw  string
		want string
	}{
		"nothing":         {"", ""},
		"string":          {"name=a%20b", "name=a+b"},
		"empty string":    {"name=", "name="},
		"int32":           {"attempt=-7", "attempt=-7"},
		"leading zeros":   {"attempt=007", "attempt=7"},
		"enum":            {"state=queued", "state=JOB_STATE_QUEUED"},
		"time":            {"created_at=2026-11-21T04:00:00%2B01:00", "created_at=2026-11-21T03%3A00%3A00Z"},
		"a list":          {"warnings=a&warnings=b", "warnings=a&warnings=b"},
		"name without =":  {"name", "name="},
		"one after other": {"name=a&attempt=1", "attempt=1&name=a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, f := every(t).Query(tc.raw)
			require.Nil(t, f)
			require.Equal(t, tc.want, got.Encode())
		})
	}
}

func TestQueriesThatAreRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ raw, want string }{
		"enum by its proto name": {"state=JOB_STATE_QUEUED", fault.TypeEnum},
		"enum by number":         {"state=1", fault.TypeEnum},
		"enum of nothing":        {"state=unspecified", fault.TypeEnum},
		"int32 too large":        {"attempt=2147483648", fault.TypeIntParsing},
		"int32 in hex":           {"attempt=0x1", fault.TypeIntParsing},
		"int32 with a space":     {"attempt=+1", fault.TypeIntParsing},
		"time without offset":    {"created_at=2026-11-21T04:00:00", fault.TypeDatetime},
		"camelCase":              {"runId=x", fault.TypeExtra},
		"bracket":                {"labels[a]=x", fault.TypeExtra},
		"dotted":                 {"queue.reason=x", fault.TypeExtra},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, f := every(t).Query(tc.raw)
			require.NotNil(t, f)
			require.Len(t, f.Fields, 1)
			require.Equal(t, tc.want, f.Fields[0].Type)
			require.Equal(t, "query", f.Fields[0].Loc[0])
		})
	}
}

func TestNumbersAndTruthsOfQueries(t *testing.T) {
	t.Parallel()
	point := edge.ShapeOf(new(ingestv1.ValidationRound).ProtoReflect().Descriptor())
	for _, good := range []string{"accuracy=0.5", "accuracy=-1e-3", "accuracy=3", "complete=true", "complete=false", "step=9007199254740993"} {
		_, f := point.Query(good)
		require.Nil(t, f, good)
	}
	for _, bad := range []string{
		"accuracy=nan", "accuracy=inf", "accuracy=0x1p3", "accuracy=1e400", "accuracy=", "accuracy=1_0",
		"complete=True", "complete=1", "complete=", "step=9223372036854775808",
	} {
		_, f := point.Query(bad)
		require.NotNil(t, f, bad)
	}
}

func TestShapesOfUnknownCalls(t *testing.T) {
	t.Parallel()
	for _, rt := range []*match.Route{
		routeOf("signalbox.nope.v1.Nope/Get", "/x", ""), routeOf("signalbox.jobs.v1.JobService/Nope", "/x", ""),
		routeOf("signalbox.jobs.v1.Job/Get", "/x", ""), routeOf("signalbox.jobs.v1.JobService/GetJob", "/x/{nope}", "", "nope"),
	} {
		_, err := edge.NewShape(rt)
		require.Error(t, err, rt.RPC)
	}
}

func TestPathAndQueryFillAStreamsRequest(t *testing.T) {
	t.Parallel()
	rt := routeOf("signalbox.ingest.v1.RunDataService/FollowLogs", "/api/runs/{id}/logs/stream", "", "id")
	req := httptest.NewRequest("GET", "/api/runs/run_1/logs/stream?after=3", nil)
	var in ingestv1.FollowLogsRequest
	require.Nil(t, shape(t, rt).Fill(&in, &match.Match{Route: rt, Values: []string{"run_1"}}, req))
	require.Equal(t, "run_1", in.GetId())
	require.Equal(t, int64(3), in.GetAfter())

	for _, bad := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		req.Header.Set("Last-Event-Id", bad)
		f := shape(t, rt).Fill(&in, &match.Match{Route: rt, Values: []string{"run_1"}}, req)
		require.NotNil(t, f, bad)
		require.Equal(t, []any{"header", "last-event-id"}, f.Fields[0].Loc)
	}
}

func TestFieldsArePutWhereTheyCameFrom(t *testing.T) {
	t.Parallel()
	whole := &match.Match{Route: routeOf("", "/x/{id}", "*", "id")}
	part := &match.Match{Route: routeOf("", "/x/{id}", "spec", "id")}
	none := &match.Match{Route: routeOf("", "/x/{id}", "", "id")}
	cases := map[string]struct {
		m         *match.Match
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
		f := edge.Placed(&edge.Call{Match: tc.m}, fault.InvalidFields(fault.At(fault.TypeMissing, "Field required", tc.loc...)))
		require.Equal(t, tc.want, f.Fields[0].Loc, name)
	}
	require.Equal(t, fault.Absent, edge.Placed(&edge.Call{Match: none}, fault.Absentf("job", "x")).Kind)
}

func TestTheShapeOfASubmissionIsAGate(t *testing.T) {
	t.Parallel()
	submit := &edge.Call{Match: &match.Match{Route: &match.Route{Route: route.Route{RPC: "signalbox.jobs.v1.JobService/SubmitJob", Body: "*"}}}}
	bad := fault.InvalidFields(fault.At(fault.TypeMissing, "Field required", "spec"))
	require.Equal(t, "schema", edge.Placed(submit, bad).Code)
	require.Equal(t, "quota", edge.Placed(submit, fault.New(fault.Forbidden, "quota", "quota: too much")).Code)
	other := &edge.Call{Match: &match.Match{Route: routeOf("", "/x", "*")}}
	require.Empty(t, edge.Placed(other, bad).Code)
}
