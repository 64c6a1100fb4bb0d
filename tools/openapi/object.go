package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// object is a JSON object that keeps the order of its members.
type object struct {
	names   []string
	members map[string]any
}

// obj returns an object of alternating names and values.
func obj(pairs ...any) *object {
	o := &object{members: map[string]any{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		o.set(name, pairs[i+1])
	}
	return o
}

func (o *object) set(name string, v any) {
	if _, ok := o.members[name]; !ok {
		o.names = append(o.names, name)
	}
	o.members[name] = v
}

func (o *object) get(name string) any { return o.members[name] }

// in returns a member that is an object, and creates it if it is missing.
func (o *object) in(name string) *object {
	if inner, ok := o.members[name].(*object); ok {
		return inner
	}
	inner := obj()
	o.set(name, inner)
	return inner
}

func (o *object) drop(name string) {
	delete(o.members, name)
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
}

func (o *object) len() int { return len(o.names) }

// sort sorts the members by name.
func (o *object) sort() { slices.Sort(o.names) }

// copy returns a deep copy.
func (o *object) copy() *object {
	c := obj()
	for _, name := range o.names {
		c.set(name, copied(o.members[name]))
	}
	return c
}

func copied(v any) any {
	switch v := v.(type) {
	case *object:
		return v.copy()
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = copied(v[i])
		}
		return out
	default:
		return v
	}
}

// merge applies a patch as in RFC 7396, except that it appends the elements of a list to an existing list.
func (o *object) merge(patch *object) {
	for _, name := range patch.names {
		switch v := patch.members[name].(type) {
		case nil:
			o.drop(name)
		case *object:
			o.in(name).merge(v)
		case []any:
			before, _ := o.members[name].([]any)
			o.set(name, append(slices.Clone(before), v...))
		default:
			o.set(name, v)
		}
	}
}

// MarshalJSON implements json.Marshaler.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{name, o.members[name]} {
			if j > 0 {
				b.WriteByte(':')
			}
			text, err := plain(v)
			if err != nil {
				return nil, err
			}
			b.Write(text)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plain returns a value as JSON without HTML escapes.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// fromYAML converts a YAML node to a JSON value. The members of mappings keep their order.
func fromYAML(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		return fromYAML(n.Content[0])
	case yaml.AliasNode:
		return fromYAML(n.Alias)
	case yaml.MappingNode:
		return mapping(n)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, inner := range n.Content {
			v, err := fromYAML(inner)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	default:
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		return v, nil
	}
}

// mapping converts a YAML mapping to an object. Its own members take precedence over those merged with `<<`.
func mapping(n *yaml.Node) (*object, error) {
	o, own := obj(), map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		v, err := fromYAML(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		if n.Content[i].Tag == "!!merge" {
			base, ok := v.(*object)
			if !ok {
				return nil, fmt.Errorf("line %d: only a mapping can be merged", n.Content[i].Line)
			}
			for _, inherited := range base.names {
				if !own[inherited] {
					o.set(inherited, copied(base.members[inherited]))
				}
			}
			continue
		}
		if own[name] {
			return nil, fmt.Errorf("line %d: %s is repeated", n.Content[i].Line, name)
		}
		own[name] = true
		o.set(name, v)
	}
	return o, nil
}
