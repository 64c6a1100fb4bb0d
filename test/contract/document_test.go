package contract

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/contract/exchange"
	"github.com/signalbox-dev/signalbox/test/contract/openapi"
)

var described = sync.OnceValues(openapi.Load)

// description returns the OpenAPI document that installations serve.
func description(t testing.TB) *openapi.Document {
	t.Helper()
	d, err := described()
	require.NoError(t, err)
	return d
}

// document returns a checker that compares responses with the OpenAPI document.
func document(t testing.TB) exchange.Document {
	t.Helper()
	return checker{description(t)}
}

type checker struct{ *openapi.Document }

// CheckResponse implements exchange.Document. It accepts every 405 response and every response to an
// unknown path, because such errors come from the router and belong to no operation.
func (c checker) CheckResponse(method, target string, status int, header http.Header, body []byte) error {
	path, _, _ := strings.Cut(target, "?")
	op, found := c.Operation(method, path)
	if !found || status == http.StatusMethodNotAllowed {
		return nil
	}
	return op.CheckResponse(status, header, body)
}

// example returns a minimal valid body for a route, or "" if the route takes no JSON body.
func example(t testing.TB, rt route.Route) string {
	t.Helper()
	op, found := description(t).Operation(rt.Method, rt.Pattern)
	require.True(t, found, "the OpenAPI document must describe %s %s", rt.Method, rt.Pattern)
	body, err := op.Example(nil)
	require.NoError(t, err)
	return string(body)
}

// declared returns the statuses that the OpenAPI document declares for a route. If the route returns the
// responses of an engine, the document declares only Signalbox's own errors, so declared adds 200.
func declared(t testing.TB, rt route.Route) []int {
	t.Helper()
	op, found := description(t).Operation(rt.Method, rt.Pattern)
	require.True(t, found, "the OpenAPI document must describe %s %s", rt.Method, rt.Pattern)
	statuses := op.Statuses()
	if op.Passthrough {
		statuses = append(statuses, http.StatusOK)
	}
	return statuses
}

// TestHeadersOfRulesAreDescribed checks the headers that make a request conditional or repeatable, and the headers of
// the responses. If a golden uses such a header, the OpenAPI document must describe the header for that operation.
func TestHeadersOfRulesAreDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range loadGoldens(t) {
		for _, s := range g.Steps {
			path, _, _ := strings.Cut(s.Request.Target, "?")
			op, found := description(t).Operation(s.Request.Method, path)
			if !found || s.Response.Status >= http.StatusBadRequest && s.Response.Status != http.StatusConflict {
				continue
			}
			for _, f := range s.Request.Header {
				if slices.Contains([]string{"If-Match", "X-Service-Confirm", "Idempotency-Key"}, f.Name) {
					seen[f.Name] = true
					require.True(t, op.HasRequestHeader(f.Name), "the golden %s sends the header %s, which %s does not describe", g.Name, f.Name, op.ID)
				}
			}
			for _, f := range s.Response.Header {
				if slices.Contains([]string{"ETag", "X-Service-Impact"}, f.Name) && f.Value != "<<absent>>" {
					seen[f.Name] = true
					require.True(t, op.HasResponseHeader(s.Response.Status, f.Name), "the golden %s expects the header %s, which %s does not describe", g.Name, f.Name, op.ID)
				}
			}
		}
	}
	require.Len(t, seen, 5, "each of these headers must be used by a golden")
}
