package contract

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/contract/exchange"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

func (c gap) String() string { return fmt.Sprintf("%s %d", c.Route, c.Status) }

// gap is a status of a route that no golden covers.
type gap exchange.Covered

// readLines returns the lines of a list in testdata, without comments and with single spaces.
func readLines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return out
}

// TestEveryRouteAndStatusHasAGolden checks that goldens cover exactly the statuses that routes declare, except those in
// testdata/elsewhere.txt and testdata/owed.txt.
func TestEveryRouteAndStatusHasAGolden(t *testing.T) {
	t.Parallel()
	shown := coveredByGoldens(t, loadGoldens(t))
	for c, test := range coveredElsewhere(t) {
		require.Empty(t, shown[c], "a golden covers %v: remove its line from testdata/elsewhere.txt", c)
		shown[c] = []string{test}
	}
	missing, excess := compareCoverage(declaredStatuses(t), shown)
	missing = slices.DeleteFunc(missing, func(gap string) bool { return !hasRow(gap) })
	list := slices.DeleteFunc(readLines(t, "testdata/owed.txt"), func(line string) bool { return strings.HasPrefix(line, "rule ") })
	requireSameLines(t, missing, list, "statuses of routes that no golden covers")
	require.Empty(t, excess, "goldens cover statuses that are not declared")
}

// hasRow reports whether the table of routes has a complete row for the route of a gap. TestRoutes_complete fails for the
// others.
func hasRow(gap string) bool {
	return slices.ContainsFunc(routes.Load().Routes(), func(r routes.Row) bool { return strings.HasPrefix(gap, r.Served()+" ") })
}

// coveredElsewhere returns the statuses that no request to these installations can cause, each with the test that
// covers it.
func coveredElsewhere(t *testing.T) map[exchange.Covered]string {
	t.Helper()
	out := map[exchange.Covered]string{}
	for _, line := range readLines(t, "testdata/elsewhere.txt") {
		f := strings.Fields(line)
		require.Len(t, f, 4, line)
		status, err := strconv.Atoi(f[2])
		require.NoError(t, err, line)
		require.Empty(t, missing(t, rule{}, f[3]), line)
		out[exchange.Covered{Route: f[0] + " " + f[1], Status: status}] = f[3]
	}
	return out
}

// declaredStatuses returns all statuses that routes declare.
func declaredStatuses(t *testing.T) map[exchange.Covered]bool {
	t.Helper()
	out := map[exchange.Covered]bool{}
	for _, rt := range route.Table() {
		for _, status := range declared(t, rt) {
			out[exchange.Covered{Route: rt.Method + " " + rt.Pattern, Status: status}] = true
		}
	}
	return out
}

func compareCoverage(want map[exchange.Covered]bool, shown map[exchange.Covered][]string) (missing, excess []string) {
	for c := range want {
		if len(shown[c]) == 0 {
			missing = append(missing, gap(c).String())
		}
	}
	for c, by := range shown {
		if !want[c] {
			excess = append(excess, fmt.Sprintf("%s by %s", gap(c), strings.Join(by, ", ")))
		}
	}
	slices.Sort(missing)
	slices.Sort(excess)
	return missing, excess
}

// requireSameLines requires that the slices `missing` and `list` contain the same lines.
func requireSameLines(t require.TestingT, missing, list []string, what string) {
	news, gone := differ(missing, list)
	require.Empty(t, news, what)
	require.Empty(t, gone, "these are now covered; remove their lines from the list")
}

// differ returns the lines that only a contains. It also returns the lines that only b contains and the
// duplicates in b.
func differ(a, b []string) (news, gone []string) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			news = append(news, x)
		}
	}
	for i, x := range b {
		if !slices.Contains(a, x) || slices.Contains(b[:i], x) {
			gone = append(gone, x)
		}
	}
	return news, gone
}

func TestCompareCoverage(t *testing.T) {
	t.Parallel()
	a, b, c := exchange.Covered{Route: "GET /a", Status: 200}, exchange.Covered{Route: "GET /a", Status: 404}, exchange.Covered{Route: "GET /b", Status: 200}
	missing, excess := compareCoverage(map[exchange.Covered]bool{a: true, b: true}, map[exchange.Covered][]string{a: {"x/y"}, c: {"x/z", "x/w"}})
	require.Equal(t, []string{"GET /a 404"}, missing)
	require.Equal(t, []string{"GET /b 200 by x/z, x/w"}, excess)
	news, gone := differ([]string{"p", "q"}, []string{"q", "q", "r"})
	require.Equal(t, []string{"p"}, news)
	require.Equal(t, []string{"q", "r"}, gone)
}

func TestSelected(t *testing.T) {
	t.Parallel()
	for _, rt := range selected(t, "role=admin kind=rpc") {
		require.Equal(t, "admin", rt.Role)
	}
	require.Less(t, len(selected(t, "credential=user not:role=admin")), len(selected(t, "credential=user")))
	for _, rt := range selected(t, "path-id") {
		vars := routeVars(t, rt)
		require.NotContains(t, vars["path"], "{", rt.Pattern)
		require.Contains(t, vars["path"], "_00000000000000000000000000", rt.Pattern)
		require.Contains(t, vars["malformed_path"], "-nonsense", rt.Pattern)
	}
	lists := selected(t, "list")
	require.True(t, slices.ContainsFunc(lists, func(rt route.Route) bool { return rt.Pattern == "/api/jobs" }))
	require.False(t, slices.ContainsFunc(lists, func(rt route.Route) bool { return rt.Pattern == "/api/quota" }))
}
