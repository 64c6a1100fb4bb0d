// Package apidoc owns the explanation of the objects of the API from its OpenAPI document, which each installation
// serves for its own version.
package apidoc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Document is the part of an OpenAPI document that describes objects.
type Document struct {
	schemas map[string]*schema
}

type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"`
	Description string             `json:"description"`
	Enum        []any              `json:"enum"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	AnyOf       []*schema          `json:"anyOf"`
	AllOf       []*schema          `json:"allOf"`
	Minimum     json.Number        `json:"minimum"`
	Maximum     json.Number        `json:"maximum"`
	MaxLength   json.Number        `json:"maxLength"`
	Pattern     string             `json:"pattern"`
	Default     any                `json:"default"`
}

// Parse reads an OpenAPI document.
func Parse(raw []byte) (*Document, error) {
	var doc struct {
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("decode the OpenAPI document: %w", err)
	}
	return &Document{schemas: doc.Components.Schemas}, nil
}

// Kinds returns the names of all objects, sorted.
func (d *Document) Kinds() []string {
	out := make([]string, 0, len(d.schemas))
	for name := range d.schemas {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Field is a member of an object.
type Field struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Required    bool   `json:"required"`
	Description string `json:"description"`
}

// Explanation describes an object, or a member of one.
type Explanation struct {
	Path        string  `json:"path"`
	Type        string  `json:"type"`
	Description string  `json:"description"`
	Fields      []Field `json:"fields"`
}

// UnknownError reports an object or a member that the API does not have.
type UnknownError struct {
	Name, In string
	Known    []string
}

// Error implements error.
func (e *UnknownError) Error() string {
	if e.In == "" {
		return fmt.Sprintf("the API has no object %q; signalbox explain lists all", e.Name)
	}
	return fmt.Sprintf("%s has no member %q; it has %s", e.In, e.Name, strings.Join(e.Known, ", "))
}

// Explain describes what a path leads to: the name of an object, in any case, and names of members, with dots.
func (d *Document) Explain(path string) (Explanation, error) {
	parts := strings.Split(path, ".")
	name, ok := d.kind(parts[0])
	if !ok {
		return Explanation{}, &UnknownError{Name: parts[0]}
	}
	current, within := d.schemas[name], name
	for _, member := range parts[1:] {
		object := d.object(current)
		next, ok := object.Properties[member]
		if !ok {
			return Explanation{}, &UnknownError{Name: member, In: within, Known: members(object)}
		}
		within += "." + member
		current = next
	}
	object := d.object(current)
	out := Explanation{Path: within, Type: d.typeOf(current), Description: current.Description, Fields: []Field{}}
	if out.Description == "" {
		out.Description = object.Description
	}
	for _, member := range members(object) {
		p := object.Properties[member]
		out.Fields = append(out.Fields, Field{
			Name: member, Type: d.typeOf(p), Required: slices.Contains(object.Required, member), Description: d.description(p),
		})
	}
	return out, nil
}

// kind finds an object by its name in any case, in singular or plural: job, Jobs and JobSpec all work.
func (d *Document) kind(name string) (string, bool) {
	for _, known := range d.Kinds() {
		if strings.EqualFold(known, name) || strings.EqualFold(known+"s", name) {
			return known, true
		}
	}
	return "", false
}

func members(s *schema) []string {
	out := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// maxReferences bounds the references that are followed, because a document could refer in a circle.
const maxReferences = 16

// object returns the object that a schema is or refers to: behind references, in a list, or as one of several types.
func (d *Document) object(s *schema) *schema {
	for range maxReferences {
		switch {
		case s == nil:
			return &schema{}
		case s.Ref != "":
			s = d.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
		case s.Items != nil:
			s = s.Items
		case len(s.AnyOf) > 0:
			s = s.AnyOf[0]
		case len(s.AllOf) > 0 && len(s.Properties) == 0:
			s = s.AllOf[0]
		default:
			return s
		}
	}
	return &schema{}
}

func (d *Document) description(s *schema) string {
	if s.Description != "" || s.Ref == "" {
		return s.Description
	}
	return d.object(s).Description
}

// typeOf returns the type of a schema for people: integer, 0 to 100; queued | running; [Artifact].
func (d *Document) typeOf(s *schema) string {
	switch {
	case s == nil:
		return "any"
	case s.Ref != "":
		name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
		if target := d.schemas[name]; target != nil && len(target.Enum) > 0 {
			return d.typeOf(target)
		}
		return name
	case len(s.Enum) > 0:
		return join(s.Enum, " | ")
	case len(s.AnyOf) > 0:
		return d.joinTypes(s.AnyOf)
	case len(s.AllOf) > 0:
		return d.joinTypes(s.AllOf)
	case s.Items != nil:
		return "[" + d.typeOf(s.Items) + "]"
	}
	return named(s.Type) + bounds(s)
}

func (d *Document) joinTypes(all []*schema) string {
	types := make([]string, 0, len(all))
	for _, s := range all {
		types = append(types, d.typeOf(s))
	}
	return strings.Join(types, " | ")
}

func named(t any) string {
	switch v := t.(type) {
	case string:
		return v
	case []any:
		return join(v, " | ")
	}
	return "any"
}

func join(values []any, between string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, between)
}

// bounds returns the limits of a number or a text.
func bounds(s *schema) string {
	switch {
	case s.Minimum != "" && s.Maximum != "":
		return fmt.Sprintf(", %s to %s", s.Minimum, s.Maximum)
	case s.Minimum != "":
		return fmt.Sprintf(", at least %s", s.Minimum)
	case s.Maximum != "":
		return fmt.Sprintf(", at most %s", s.Maximum)
	case s.MaxLength != "":
		return fmt.Sprintf(", at most %s characters", s.MaxLength)
	}
	return ""
}
