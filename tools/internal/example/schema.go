package example

import (
	"slices"
	"strings"
)

// document is the OpenAPI document, and the first complete object of each of its components that a golden contains.
type document struct {
	root   map[string]any
	models map[string]map[string]any
}

// schema is a schema of the document. component is its name, or empty if it is inline.
type schema struct {
	node      map[string]any
	component string
	// null is true if the value may be null.
	null bool
}

// at returns the schema of a node. It follows references, and of the alternatives it takes the first that is not null.
func (d *document) at(node map[string]any) schema {
	s := schema{node: node}
	for {
		if name, ok := s.node["$ref"].(string); ok {
			s.component = strings.TrimPrefix(name, "#/components/schemas/")
			s.node = in(in(in(d.root, "components"), "schemas"), s.component)
			continue
		}
		options, _ := s.node["anyOf"].([]any)
		if len(options) == 0 || s.node["type"] != nil {
			break
		}
		next, _ := options[0].(map[string]any)
		for _, option := range options {
			one, _ := option.(map[string]any)
			s.null = s.null || one["type"] == "null"
			if next["type"] == "null" {
				next = one
			}
		}
		s.node = next
	}
	types, _ := s.node["type"].([]any)
	s.null = s.null || slices.Contains(types, any("null"))
	return s
}

// kind returns the type of the value, or "" if it may be of any type.
func (s schema) kind() string {
	if types, ok := s.node["type"].([]any); ok && len(types) > 0 {
		first, _ := types[0].(string)
		return first
	}
	one, _ := s.node["type"].(string)
	return one
}

// property returns the schema of a member.
func (s schema) property(name string) map[string]any {
	if p := in(in(s.node, "properties"), name); p != nil {
		return p
	}
	return in(s.node, "additionalProperties")
}

func (s schema) required() []string {
	list, _ := s.node["required"].([]any)
	out := make([]string, 0, len(list))
	for _, v := range list {
		name, _ := v.(string)
		out = append(out, name)
	}
	return out
}

// in returns the member with the name if it is an object, otherwise nil.
func in(node map[string]any, name string) map[string]any {
	out, _ := node[name].(map[string]any)
	return out
}

// clone returns a deep copy of a JSON value.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = clone(v[name])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		return out
	default:
		return v
	}
}
