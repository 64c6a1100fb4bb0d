package exchange

import (
	"fmt"
	"slices"
	"strings"
)

// Covered is a route and a status that a golden shows.
type Covered struct {
	Route  string
	Status int
}

// Covers lists what a golden that is played once covers: of each route that it names, the statuses of the counting
// steps whose request is one of that route. A route that no such step asks is an error.
func (g *Golden) Covers() ([]Covered, error) {
	var all []Covered
	asked := map[string]bool{}
	for i, s := range g.Steps {
		if !g.counts(i) {
			continue
		}
		for _, route := range g.Routes {
			if Asks(s.Request.Method, s.Request.Target, route) {
				asked[route] = true
				all = append(all, Covered{route, s.Response.Status})
			}
		}
	}
	for _, route := range g.Routes {
		if !asked[route] {
			return nil, fmt.Errorf("%s: no step that counts asks %s", g.Name, route)
		}
	}
	return slices.Compact(all), nil
}

// Asks tells whether a request line, with variables in it or not, is one of a route `METHOD PATTERN`.
func Asks(method, target, route string) bool {
	routeMethod, pattern, _ := strings.Cut(route, " ")
	if routeMethod != "*" && method != routeMethod {
		return false
	}
	if variable.ReplaceAllString(target, "") == "" {
		return true // a whole address that an answer gave
	}
	path, _, _ := strings.Cut(target, "?")
	return Matches(path, pattern)
}

// Matches tells whether a path fits a pattern of gen/route. A place for one segment takes a variable or any text,
// a written segment only itself.
func Matches(path, pattern string) bool {
	have, want := strings.Split(path, "/"), strings.Split(pattern, "/")
	for i, w := range want {
		if strings.HasSuffix(w, "...}") {
			return len(have) > i
		}
		if i >= len(have) || (have[i] != w && (!strings.HasPrefix(w, "{") || have[i] == "")) {
			return false
		}
	}
	return len(have) == len(want)
}

// Find answers which of the patterns a path is of: the one with the most written segments.
func Find(path string, patterns []string) (pattern string, found bool) {
	most := -1
	for _, p := range patterns {
		if written := strings.Count(p, "/") - strings.Count(p, "{"); Matches(path, p) && written > most {
			pattern, found, most = p, true, written
		}
	}
	return pattern, found
}
