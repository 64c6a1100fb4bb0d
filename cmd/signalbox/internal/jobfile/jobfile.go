// Package jobfile owns the connection between a file with a job and the fields of the request that is made of it. It promises
// that a field which the server refuses leads to the line of the file that the user must change.
package jobfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Place is a position in a file.
type Place struct {
	// Line and Column are counted from 1.
	Line, Column int
	// Missing states that the file does not have the field: the place is the innermost object or list around it.
	Missing bool
}

// Find returns the place of a field in a file in YAML or JSON. The path is the one that the server reports: it begins with
// "body", and has names of members and indexes of lists. The file has a whole request with api and spec, or only the members of
// the spec. The error is that of a file that is not valid YAML.
func Find(raw []byte, path []any) (Place, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return Place{}, fmt.Errorf("read the job: %w", err)
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) == 0 {
		return Place{Line: 1, Column: 1, Missing: true}, nil
	}
	node := resolved(document.Content[0])
	if len(path) > 0 && path[0] == "body" {
		path = path[1:]
	}
	if whole := member(node, "spec", nil); whole == nil || resolved(whole.value).Kind != yaml.MappingNode {
		if len(path) == 0 || path[0] != "spec" {
			return Place{Line: node.Line, Column: node.Column, Missing: len(path) > 0}, nil
		}
		path = path[1:]
	}
	place := Place{Line: node.Line, Column: node.Column}
	for _, step := range path {
		next := child(node, step)
		if next == nil {
			place.Missing = true
			return place, nil
		}
		place.Line, place.Column = next.at.Line, next.at.Column
		node = resolved(next.value)
	}
	return place, nil
}

// entry is a value and the node that shows where it is: its key, or the value itself in a list.
type entry struct{ at, value *yaml.Node }

// child returns the member or the item of a node, or nil if it has none.
func child(node *yaml.Node, step any) *entry {
	if name, ok := step.(string); ok {
		return member(node, name, nil)
	}
	i, ok := index(step)
	if !ok || node.Kind != yaml.SequenceNode || i < 0 || i >= len(node.Content) {
		return nil
	}
	return &entry{at: node.Content[i], value: node.Content[i]}
}

// index returns a number of a path: JSON decodes numbers as float64.
func index(step any) (int, bool) {
	switch n := step.(type) {
	case int:
		return n, true
	case float64:
		return int(n), n >= 0 && n < 1<<31 && n == float64(int(n))
	case json.Number:
		i, err := strconv.Atoi(n.String())
		return i, err == nil
	}
	return 0, false
}

// member returns a member of an object. Its own members win over those that a merge (<<) adds. An object in seen is not
// searched again: a merge can contain itself, and many merges can contain the same objects.
func member(node *yaml.Node, name string, seen map[*yaml.Node]bool) *entry {
	if node.Kind != yaml.MappingNode || seen[node] {
		return nil
	}
	if seen == nil {
		seen = map[*yaml.Node]bool{}
	}
	seen[node] = true
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := resolved(node.Content[i]); key.Value == name && key.Kind == yaml.ScalarNode {
			return &entry{at: node.Content[i], value: node.Content[i+1]}
		}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Tag != "!!merge" {
			continue
		}
		merged := resolved(node.Content[i+1])
		sources := []*yaml.Node{merged}
		if merged.Kind == yaml.SequenceNode {
			sources = merged.Content
		}
		for _, source := range sources {
			if found := member(resolved(source), name, seen); found != nil {
				return found
			}
		}
	}
	return nil
}

// resolved returns the node to which an alias leads.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// Explain returns a line for each field of a response with status 422, such as
// "job.yaml:7: spec.resources.pools[0].pool: Field required". A field whose path is in set has been set by a flag, which is named in place
// of the line. The result is nil if the response names no fields.
func Explain(file string, raw, response []byte, set []string) []string {
	var body struct {
		Detail []struct {
			Loc []any  `json:"loc"`
			Msg string `json:"msg"`
		} `json:"detail"`
	}
	if json.Unmarshal(response, &body) != nil || len(body.Detail) == 0 {
		return nil
	}
	out := make([]string, 0, len(body.Detail))
	for _, field := range body.Detail {
		if flag := dotted(field.Loc); slices.Contains(set, flag) {
			out = append(out, "--set "+flag+": "+field.Msg)
			continue
		}
		prefix := file
		if place, err := Find(raw, field.Loc); err == nil && len(field.Loc) > 0 && field.Loc[0] == "body" {
			prefix += ":" + strconv.Itoa(place.Line)
		}
		name := Name(field.Loc)
		if name != "" {
			prefix += ": " + name
		}
		out = append(out, prefix+": "+field.Msg)
	}
	return out
}

// dotted returns the path of a member of the spec as Set reads it.
func dotted(path []any) string {
	var parts []string
	for _, step := range path[min(2, len(path)):] {
		if i, ok := index(step); ok {
			parts = append(parts, strconv.Itoa(i))
		} else {
			parts = append(parts, fmt.Sprint(step))
		}
	}
	return strings.Join(parts, ".")
}

// Name returns a path as text, such as spec.resources.pools[0].pool. Names that contain dots are in quotes.
func Name(path []any) string {
	if len(path) > 0 && path[0] == "body" {
		path = path[1:]
	}
	var out strings.Builder
	for _, step := range path {
		name, isName := step.(string)
		i, isIndex := index(step)
		switch {
		case isIndex:
			fmt.Fprintf(&out, "[%d]", i)
		case isName && (name == "" || strings.ContainsAny(name, ".[]\" \t\n")):
			fmt.Fprintf(&out, "[%q]", name)
		case isName:
			if out.Len() > 0 {
				out.WriteByte('.')
			}
			out.WriteString(name)
		}
	}
	return out.String()
}
