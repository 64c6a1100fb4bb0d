package e2e

import "regexp"

// identifier matches the path parameters that take an id or a number.
var identifier = regexp.MustCompile(`\{(id|[a-z_]+_id|number)\}`)

// ids returns the names of the parameters in a pattern that take an id or a number.
func ids(pattern string) (names []string) {
	for _, m := range identifier.FindAllStringSubmatch(pattern, -1) {
		names = append(names, m[1])
	}
	return names
}
