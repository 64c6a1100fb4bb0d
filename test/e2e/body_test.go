package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/contract/openapi"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// check sends a bad body and requires status 422 and an error at the expected location.
func (b badBody) check(ctx context.Context, t *testing.T, s *testenv.Installation, token, method, path string) {
	t.Helper()
	r := request(ctx, t, s, token, method, path, b.body)
	require.Equal(t, http.StatusUnprocessableEntity, r.Status, "%s %s: %s", method, path, r.Body)
	require.NotEmpty(t, r.Fields, r.Body)
	for _, f := range r.Fields {
		require.NotEmpty(t, f.Msg)
		require.Equal(t, "body", f.Loc[0], r.Body)
	}
	if b.loc == nil {
		require.Equal(t, b.typ, r.Fields[0].Type, r.Body)
		return
	}
	types := r.types(b.loc...)
	require.NotEmpty(t, types, "no error at location %v: %s", b.loc, r.Body)
	if b.typ != "" {
		require.Contains(t, types, b.typ, r.Body)
	}
}

// `make test` calls one in routeShare routes for each kind of rejection.
const routeShare = 10

// drawnRoutes returns the random selection of routes that a test calls.
func drawnRoutes(t *testing.T) []route.Route {
	t.Helper()
	return draw.Table(t, routeShare, routes.Load().Generated())
}

// TestEveryRoute sends requests that must be rejected to every route of an installation.
func TestEveryRoute(t *testing.T) {
	for name, start := range testenv.DrawnKinds(t) {
		t.Run(name, func(t *testing.T) { everyRoute(t, start(t, testenv.Options{})) })
	}
}

func everyRoute(t *testing.T, s *testenv.Installation) {
	t.Helper()
	ctx := t.Context()
	c := issueTokens(ctx, t, s)
	t.Run("credentials", func(t *testing.T) { requireTokenKinds(ctx, t, s, c) })
	t.Run("bodies", func(t *testing.T) { badBodies(ctx, t, s, c) })
	t.Run("reports", func(t *testing.T) { badReports(ctx, t, s, c) })
	t.Run("body on a route without one", func(t *testing.T) { unwantedBodies(ctx, t, s, c) })
	t.Run("malformed path ids", func(t *testing.T) { malformedIDs(ctx, t, s, c) })
	t.Run("bad queries", func(t *testing.T) { badQueries(ctx, t, s, c) })
	t.Run("refusals of large bodies", func(t *testing.T) { earlyRefusals(ctx, t, s, c) })
	t.Run("notebook", func(t *testing.T) { reportFromNotebook(ctx, t, s, c) })
	t.Run("search", func(t *testing.T) { requireFreshSearch(ctx, t, s) })
}

// badBodies sends invalid bodies to every route that accepts a body.
func badBodies(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	sent := 0
	for _, rt := range drawnRoutes(t) {
		if rt.Body == "" {
			continue
		}
		require.Equal(t, "*", rt.Body, "this test handles only body \"*\"")
		m := inputOf(t, rt)
		t.Run(rt.Method+" "+rt.Pattern, func(t *testing.T) {
			for _, b := range append(invalidObjects(), invalidFields(rt, m)...) {
				t.Run(b.name, func(t *testing.T) { b.check(ctx, t, s, c.access, rt.Method, fillPath(rt, "")) })
				sent++
			}
		})
	}
	if draw.Whole() {
		require.Greater(t, sent, 200, "the test must send more than 200 bad bodies")
	}
}

// badReports sends invalid bodies to the routes for the reports of trainings.
func badReports(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	bodies := ingestBodies(c.runID)
	for _, rt := range route.Table() {
		if rt.Handler != "ingest" || rt.Method != http.MethodPost {
			continue
		}
		name := strings.TrimPrefix(rt.Pattern, "/api/ingest/")
		body, known := bodies[name]
		require.True(t, known, "ingestBodies has no body for %s", rt.Pattern)
		t.Run(rt.Method+" "+rt.Pattern, func(t *testing.T) {
			for _, b := range append(invalidObjects(), body.bad()...) {
				t.Run(b.name, func(t *testing.T) { b.check(ctx, t, s, c.ingest, rt.Method, rt.Pattern) })
			}
		})
	}
}

// unwantedBodies sends a body to routes that accept none.
func unwantedBodies(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	for _, rt := range drawnRoutes(t) {
		if rt.Kind != route.RPC || rt.Method != http.MethodPost || rt.Body != "" || rt.Credential != "user" {
			continue
		}
		r := request(ctx, t, s, c.access, rt.Method, fillPath(rt, ""), `{"x": 1}`)
		require.Equal(t, http.StatusUnprocessableEntity, r.Status, "%s: %s", rt.Pattern, r.Body)
		require.True(t, r.at("body", "x"), r.Body)
	}
}

// goodBody returns the body that the OpenAPI document shows for a route, or "" if the route takes none, so that only the
// path of the request is invalid.
func goodBody(t *testing.T, rt route.Route) string {
	t.Helper()
	document, err := openapi.Load()
	require.NoError(t, err)
	op, found := document.Operation(rt.Method, rt.Pattern)
	require.True(t, found, rt.Pattern)
	body, err := op.RequestExample()
	require.NoError(t, err)
	return string(body)
}

// malformedIDs uses a malformed id in every path parameter. It requires 422 with the location of the
// parameter, or 404 under /inference. It also requires 404 for a well-formed id that does not exist.
func malformedIDs(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	for _, rt := range drawnRoutes(t) {
		if rt.Credential != "user" && rt.Credential != "deployment" {
			continue
		}
		token := c.access
		if rt.Credential == "deployment" {
			token = c.deployment
		}
		method, body := methodOf(rt), ""
		if rt.Body != "" {
			body = goodBody(t, rt)
		}
		for _, name := range ids(rt.Pattern) {
			if !strings.Contains(rt.Pattern, "{"+name+"}") {
				continue
			}
			for _, bad := range []string{"nonsense", "ds_short", "%00", "%2e%2e", missingID("sig"), "-1"} {
				one := rt
				one.Pattern = strings.Replace(rt.Pattern, "{"+name+"}", bad, 1)
				r := request(ctx, t, s, token, method, fillPath(one, ""), body)
				if rt.Credential == "deployment" && bad[0] != '%' {
					require.Equal(t, http.StatusNotFound, r.Status, "%s: %s", one.Pattern, r.Body)
					continue
				}
				if r.Status == http.StatusUnprocessableEntity {
					require.True(t, r.at("path", name), "%s: %s", one.Pattern, r.Body)
					continue
				}
				// The router itself may reject these two before a service receives the path.
				require.Contains(t, []string{"%00", "%2e%2e"}, bad, "%s: %d %s", one.Pattern, r.Status, r.Body)
				require.Contains(t, []int{http.StatusNotFound, http.StatusBadRequest}, r.Status, "%s: %s", one.Pattern, r.Body)
			}
		}
		if strings.Contains(rt.Pattern, "_id}") || strings.Contains(rt.Pattern, "{id}") {
			r := request(ctx, t, s, token, method, fillPath(rt, missingID("dep")), body)
			require.Equal(t, http.StatusNotFound, r.Status, "%s %s: %s", method, rt.Pattern, r.Body)
		}
	}
}

// badQueries sends an unknown query parameter to each drawn GET route that serves an RPC for users. If the route is a
// list, it also sends invalid limits and offsets.
func badQueries(ctx context.Context, t *testing.T, s *testenv.Installation, c issuedTokens) {
	t.Helper()
	for _, rt := range drawnRoutes(t) {
		if rt.Kind != route.RPC || rt.Method != http.MethodGet || rt.Credential != "user" {
			continue
		}
		fields := inputOf(t, rt).Fields()
		r := request(ctx, t, s, c.access, rt.Method, fillPath(rt, "")+"?no_such_key=1", "")
		require.Equal(t, http.StatusUnprocessableEntity, r.Status, "%s: %s", rt.Pattern, r.Body)
		require.True(t, r.at("query", "no_such_key"), r.Body)
		if fields.ByName("limit") == nil {
			continue
		}
		for _, q := range []string{"limit=0", "limit=501", "limit=x", "limit=-1", "limit=1&limit=2", "limit=99999999999", "offset=-1", "offset=100001", "offset="} {
			r := request(ctx, t, s, c.access, rt.Method, fillPath(rt, "")+"?"+q, "")
			require.Equal(t, http.StatusUnprocessableEntity, r.Status, "%s?%s: %s", rt.Pattern, q, r.Body)
			key, _, _ := strings.Cut(q, "=")
			require.True(t, r.at("query", key), "%s?%s: %s", rt.Pattern, q, r.Body)
		}
	}
}
