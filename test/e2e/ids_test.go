package e2e

import "regexp"

// identifier finds the places of a path that take an id or a number, and nothing else.
var identifier = regexp.MustCompile(`\{(id|[a-z_]+_id|number)\}`)

// ids are the names of those places.
func ids(pattern string) (names []string) {
	for _, m := range identifier.FindAllStringSubmatch(pattern, -1) {
		names = append(names, m[1])
	}
	return names
}
