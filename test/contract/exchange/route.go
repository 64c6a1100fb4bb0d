package exchange

import (
	"fmt"
	"slices"
	"strings"
)

// Covered is a route and a status that a golden covers.
type Covered struct {
	Route  string
	Status int
}

// Covers returns the routes and statuses that the golden covers in one run. A step counts if it is the last
// one or has Covers set. Each of the golden's routes must have a step that counts, otherwise Covers returns
// an error.
func (g *Golden) Covers() ([]Covered, error) {
	var all []Covered
	requested := map[string]bool{}
	for i, s := range g.Steps {
		if !g.counts(i) {
			continue
		}
		for _, route := range g.Routes {
			if MatchesRoute(s.Request.Method, s.Request.Target, route) {
				requested[route] = true
				all = append(all, Covered{route, s.Response.Status})
			}
		}
	}
	for _, route := range g.Routes {
		if !requested[route] {
			return nil, fmt.Errorf("%s: no step for %s has a status that counts as covered", g.Name, route)
		}
	}
	return slices.Compact(all), nil
}

// MatchesRoute reports whether a request line, with or without variables, belongs to a route `METHOD PATTERN`.
func MatchesRoute(method, target, route string) bool {
	routeMethod, pattern, _ := strings.Cut(route, " ")
	if routeMethod != "*" && method != routeMethod {
		return false
	}
	if variable.ReplaceAllString(target, "") == "" {
		return true // a complete URL taken from a response
	}
	path, _, _ := strings.Cut(target, "?")
	return Matches(path, pattern)
}

// Matches reports whether a path matches a pattern of gen/route. A placeholder for one segment matches any
// text that is not empty. A placeholder that ends in `...}` matches one or more remaining segments. A literal segment
// matches only itself.
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

// Find returns the pattern that matches a path. If several match, it returns the one with the most literal
// segments.
func Find(path string, patterns []string) (pattern string, found bool) {
	most := -1
	for _, p := range patterns {
		if literal := strings.Count(p, "/") - strings.Count(p, "{"); Matches(path, p) && literal > most {
			pattern, found, most = p, true, literal
		}
	}
	return pattern, found
}
