package surface

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// parsePattern checks that the gateway's router supports a path template. A template consists of literal segments and
// {name}. With rest, which is set for routes that are not RPCs, the last segment may also be {name...}. parsePattern
// returns the names of the variables.
func parsePattern(pattern string, rest bool) ([]string, error) {
	literal := regexp.MustCompile(`^\.?[a-z0-9][a-z0-9_.-]*$`)
	variable := regexp.MustCompile(`^\{([a-z][a-z0-9_]*)\}$`)
	tail := regexp.MustCompile(`^\{([a-z][a-z0-9_]*)\.\.\.\}$`)
	if !strings.HasPrefix(pattern, "/") {
		return nil, fmt.Errorf("path %q does not start with /", pattern)
	}
	var vars []string
	segments := strings.Split(pattern[1:], "/")
	for i, segment := range segments {
		v := variable.FindStringSubmatch(segment)
		if rest && i == len(segments)-1 && v == nil {
			v = tail.FindStringSubmatch(segment)
		}
		switch {
		case literal.MatchString(segment):
		case v != nil && !slices.Contains(vars, v[1]):
			vars = append(vars, v[1])
		default:
			return nil, fmt.Errorf("path %q: segment %q is not supported by the gateway", pattern, segment)
		}
	}
	return vars, nil
}

// shape removes the variables' names from a pattern: two patterns with the same result match the same paths.
func shape(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		switch {
		case strings.HasSuffix(s, "...}"):
			segments[i] = "{...}"
		case strings.HasPrefix(s, "{"):
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}

// arrange sorts the rows by path and method. It returns an error if two rows have the same method and match the same
// paths.
func arrange(rows []*Route) ([]*Route, error) {
	slices.SortFunc(rows, func(a, b *Route) int {
		return cmp.Or(cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Method, b.Method))
	})
	seen := make(map[string]string)
	for _, row := range rows {
		key := row.Method + " " + shape(row.Pattern)
		name := row.RPC + row.Handler
		if other, ok := seen[key]; ok {
			return nil, fmt.Errorf("%s %s is bound twice: by %s and by %s", row.Method, row.Pattern, other, name)
		}
		seen[key] = name
	}
	return rows, nil
}
