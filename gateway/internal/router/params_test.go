package router_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func routeOf(rpc, pattern, body string, vars ...string) *router.Route {
	return &router.Route{Route: route.Route{Method: "GET", Pattern: pattern, RPC: rpc, Body: body}, Vars: vars}
}

func open(t *testing.T, rt *router.Route) *router.Params {
	t.Helper()
	s, err := router.NewParams(rt)
	require.NoError(t, err)
	return s
}

// every builds parameters with a query field of every kind. No public request has fields of all kinds, so the
// parameters are made from a message that is not a request.
func every(t *testing.T) *router.Params {
	t.Helper()
	return router.Of(new(jobsv1.Job).ProtoReflect().Descriptor())
}

func TestQueryRewritesValues(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		raw  string
		want string
	}{
		"empty":           {"", ""},
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

func TestQueryRefusesInvalidValues(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ raw, want string }{
		"enum by its proto name": {"state=JOB_STATE_QUEUED", fault.TypeEnum},
		"enum by number":         {"state=1", fault.TypeEnum},
		"enum unspecified":       {"state=unspecified", fault.TypeEnum},
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

func TestQueryNumbersAndBooleans(t *testing.T) {
	t.Parallel()
	point := router.Of(new(ingestv1.ValidationRound).ProtoReflect().Descriptor())
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

func TestNewParamsRejectsUnknownCalls(t *testing.T) {
	t.Parallel()
	for _, rt := range []*router.Route{
		routeOf("signalbox.nope.v1.Nope/Get", "/x", ""), routeOf("signalbox.jobs.v1.JobService/Nope", "/x", ""),
		routeOf("signalbox.jobs.v1.Job/Get", "/x", ""), routeOf("signalbox.jobs.v1.JobService/GetJob", "/x/{nope}", "", "nope"),
	} {
		_, err := router.NewParams(rt)
		require.Error(t, err, rt.RPC)
	}
}

func TestFillFromPathAndQuery(t *testing.T) {
	t.Parallel()
	rt := routeOf("signalbox.ingest.v1.RunDataService/FollowLogs", "/api/runs/{id}/logs/stream", "", "id")
	req := httptest.NewRequest("GET", "/api/runs/run_1/logs/stream?after=3", nil)
	var in ingestv1.FollowLogsRequest
	require.Nil(t, open(t, rt).Fill(&in, &router.Match{Route: rt, Values: []string{"run_1"}}, req))
	require.Equal(t, "run_1", in.GetId())
	require.Equal(t, int64(3), in.GetAfter())

	for _, bad := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		req.Header.Set("Last-Event-Id", bad)
		f := open(t, rt).Fill(&in, &router.Match{Route: rt, Values: []string{"run_1"}}, req)
		require.NotNil(t, f, bad)
		require.Equal(t, []any{"header", "last-event-id"}, f.Fields[0].Loc)
	}

	req = httptest.NewRequest("GET", "/api/runs/run_1/logs/stream?after=-1", nil)
	req.Header.Set("Last-Event-Id", "4")
	f := open(t, rt).Fill(&in, &router.Match{Route: rt, Values: []string{"run_1"}}, req)
	require.NotNil(t, f, "an invalid parameter is invalid also if the header replaces it")
	require.Equal(t, []any{"query", "after"}, f.Fields[0].Loc)
}
