package draw

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
)

// baseline contains the routes of proto/baseline/openapi.json as METHOD PATTERN, without the names of parameters.
var baseline = sync.OnceValues(func() (map[string]bool, error) {
	_, file, _, _ := runtime.Caller(0)
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(file), "..", "..", "proto", "baseline", "openapi.json"))
	if err != nil {
		return nil, err
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for path, methods := range document.Paths {
		for method := range methods {
			known[routeKey(strings.ToUpper(method), path)] = true
			known[routeKey("*", path)] = true
		}
	}
	return known, nil
})

var parameter = regexp.MustCompile(`\{[^}]*\}`)

func routeKey(method, pattern string) string {
	return method + " " + parameter.ReplaceAllString(pattern, "{}")
}

// NewRoute returns a function that reports whether the API's baseline in proto/baseline lacks a route, given as METHOD
// PATTERN. `make test` always tests the rows of new routes.
func NewRoute(t testing.TB) func(route string) bool {
	t.Helper()
	known, err := baseline()
	require.NoError(t, err)
	require.NotEmpty(t, known)
	return func(route string) bool {
		method, pattern, ok := strings.Cut(route, " ")
		require.True(t, ok, "%q must be a method and a pattern", route)
		return !known[routeKey(method, pattern)]
	}
}

// Routes returns about one in n rows, and all rows of new routes, in their original order. routes returns the routes of a
// row, each as METHOD PATTERN; name returns the name of the row.
func Routes[T any](t testing.TB, n int, rows []T, name func(row T) string, routes func(row T) []string) []T {
	t.Helper()
	isNew := NewRoute(t)
	drawn := map[string]bool{}
	for _, row := range OneIn(New(t), n, rows, name) {
		drawn[name(row)] = true
	}
	out := make([]T, 0, len(drawn))
	for _, row := range rows {
		keep := drawn[name(row)]
		for _, route := range routes(row) {
			keep = keep || isNew(route)
		}
		if keep {
			out = append(out, row)
		}
	}
	return out
}

// Table is Routes for rows of the table of routes.
func Table(t testing.TB, n int, rows []route.Route) []route.Route {
	t.Helper()
	name := func(rt route.Route) string { return rt.Method + " " + rt.Pattern }
	return Routes(t, n, rows, name, func(rt route.Route) []string { return []string{name(rt)} })
}
