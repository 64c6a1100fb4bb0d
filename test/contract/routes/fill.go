package routes

import "strings"

// Names returns the names of the variables in a pattern, in order.
func Names(pattern string) (names []string) {
	for segment := range strings.SplitSeq(pattern, "/") {
		if name, ok := variableIn(segment); ok {
			names = append(names, name)
		}
	}
	return names
}

// variableIn returns the name of the variable in a segment of a pattern, {name} or {name...}.
func variableIn(segment string) (name string, ok bool) {
	name, ok = strings.CutPrefix(segment, "{")
	return strings.TrimSuffix(strings.TrimSuffix(name, "}"), "..."), ok
}

// Variable returns the variable that has the given name in a pattern. ok is false if the table has no such variable.
func (t *Table) Variable(pattern, name string) (v Variable, ok bool) {
	for below, meaning := range t.meanings[name] {
		if strings.HasPrefix(pattern, below) {
			name = meaning
		}
	}
	v, ok = t.variables[name]
	return v, ok
}

// Fill replaces each variable of a pattern by the value that the function returns. Names that the table lacks become
// "none".
func (t *Table) Fill(pattern string, value func(v Variable) string) string {
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		name, is := variableIn(segment)
		if !is {
			continue
		}
		segments[i] = "none"
		if v, known := t.Variable(pattern, name); known {
			segments[i] = value(v)
		}
	}
	return strings.Join(segments, "/")
}

// Absent replaces each variable of a pattern by a value that is well formed but identifies nothing.
func (t *Table) Absent(pattern string) string {
	return t.Fill(pattern, func(v Variable) string { return v.Absent })
}

// Malformed is like Absent, with ids that are not well formed.
func (t *Table) Malformed(pattern string) string {
	return t.Fill(pattern, func(v Variable) string {
		if v.Prefix != "" {
			return string(v.Prefix) + "-nonsense"
		}
		return v.Absent
	})
}
