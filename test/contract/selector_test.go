package contract

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/contract/exchange"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

// selected returns the routes, among those with a complete row in the table of routes, that match all words of a selector. A word is `credential=user`, `role=admin`,
// `kind=rpc`, `service=auth`, `handler=oauth`, `method=POST`, `path=/x`, `path-id`, `variable`, `list`, `body`,
// `in-maintenance`, or one of them with the prefix `not:`.
func selected(t testing.TB, selector string) []route.Route {
	t.Helper()
	var out []route.Route
	for _, rt := range route.Table() {
		matches := func(word string) bool {
			plain, isNot := strings.CutPrefix(word, "not:")
			return matchesWord(t, rt, plain) != isNot
		}
		if !slices.ContainsFunc(strings.Fields(selector), func(word string) bool { return !matches(word) }) {
			out = append(out, rt)
		}
	}
	require.NotEmpty(t, out, "no route matches %s", selector)
	complete := routes.Load().Routes()
	return slices.DeleteFunc(out, func(rt route.Route) bool {
		return !slices.ContainsFunc(complete, func(r routes.Row) bool { return r.Served() == rt.Method+" "+rt.Pattern })
	})
}

func matchesWord(t testing.TB, rt route.Route, word string) bool {
	t.Helper()
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "credential":
		return rt.Credential == value
	case "role":
		return rt.Role == value
	case "kind":
		return string(rt.Kind) == value
	case "service":
		return rt.Service == value
	case "handler":
		return rt.Handler == value
	case "method":
		return rt.Method == value
	case "path":
		return rt.Pattern == value
	case "path-id":
		return strings.Contains(rt.Pattern, "_id}") || strings.Contains(rt.Pattern, "{id}")
	case "variable":
		return strings.Contains(rt.Pattern, "{")
	case "body":
		return example(t, rt) != ""
	case "in-maintenance":
		return rt.InMaintenance
	case "list":
		return routes.Limited(rt)
	default:
		require.FailNow(t, "unknown selector "+word)
		return false
	}
}

// routeVars returns the variables for a request to the route. The ids in path are well-formed but do not exist.
// The ids in malformed_path are malformed. In odd_path each parameter contains an encoded backslash.
func routeVars(t testing.TB, rt route.Route) map[string]string {
	t.Helper()
	method := rt.Method
	if method == "*" {
		method = http.MethodGet
	}
	return map[string]string{
		"method": method, "path": routes.Load().Absent(rt.Pattern), "malformed_path": routes.Load().Malformed(rt.Pattern),
		"odd_path": placeholder.ReplaceAllString(rt.Pattern, "a%5cb"), "body": example(t, rt),
	}
}

// placeholder matches a parameter of a route pattern, such as {job_id}.
var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// coveredByGoldens returns the names of the goldens that cover each route and status.
func coveredByGoldens(t testing.TB, all []*exchange.Golden) map[exchange.Covered][]string {
	t.Helper()
	out := map[exchange.Covered][]string{}
	for _, g := range all {
		covers, err := g.Covers()
		require.NoError(t, err)
		if g.Each != "" {
			_, each, _ := g.Parts()
			status := each.Steps[len(each.Steps)-1].Response.Status
			for _, rt := range selected(t, g.Each) {
				covers = append(covers, exchange.Covered{Route: rt.Method + " " + rt.Pattern, Status: status})
			}
		}
		for _, c := range covers {
			out[c] = append(out[c], g.Name)
		}
	}
	return out
}
