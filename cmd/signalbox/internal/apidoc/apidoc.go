// Package apidoc owns the explanation of the objects of the API from its OpenAPI document, which each installation
// serves for its own version. No document, however strange, makes it fail otherwise than with an error.
package apidoc

import (
	"bytes"
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
	Values      *schema            `json:"-"` // of additionalProperties
	Additional  json.RawMessage    `json:"additionalProperties"`
	Const       any                `json:"const"`
	Minimum     json.Number        `json:"minimum"`
	Maximum     json.Number        `json:"maximum"`
	MinLength   json.Number        `json:"minLength"`
	MaxLength   json.Number        `json:"maxLength"`
	MinItems    json.Number        `json:"minItems"`
	MaxItems    json.Number        `json:"maxItems"`
	Format      string             `json:"format"`
	Pattern     string             `json:"pattern"`
	Default     any                `json:"default"`
}

// UnmarshalJSON implements json.Unmarshaler. The schema of additional members can also be a boolean.
func (s *schema) UnmarshalJSON(raw []byte) error {
	type plain schema
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode((*plain)(s)); err != nil {
		return err
	}
	if bytes.HasPrefix(s.Additional, []byte("{")) {
		return json.Unmarshal(s.Additional, &s.Values)
	}
	return nil
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
	switch {
	case e.In == "":
		return fmt.Sprintf("the API has no object %q; signalbox explain lists all", e.Name)
	case len(e.Known) == 0:
		return fmt.Sprintf("%s has no member %q; it has none at all", e.In, e.Name)
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
		next := object.Properties[member]
		if next == nil {
			return Explanation{}, &UnknownError{Name: member, In: within, Known: members(object)}
		}
		within += "." + member
		current = next
	}
	object := d.object(current)
	out := Explanation{Path: within, Type: d.typeOf(current), Description: d.description(current), Fields: []Field{}}
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
	plural := ""
	for _, known := range d.Kinds() {
		switch {
		case d.schemas[known] == nil:
		case strings.EqualFold(known, name):
			return known, true
		case strings.EqualFold(known+"s", name):
			plural = known
		}
	}
	return plural, plural != ""
}

func members(s *schema) []string {
	out := make([]string, 0, len(s.Properties))
	for name, property := range s.Properties {
		if property != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// maxReferences bounds the references that are followed, because a document could refer in a circle.
const maxReferences = 16

// object returns the object that a schema is or refers to: behind references, in a list, as the values of a map, or as
// one of several types.
func (d *Document) object(s *schema) *schema {
	for range maxReferences {
		switch {
		case s == nil:
			return &schema{}
		case s.Ref != "":
			s = d.schemas[target(s.Ref)]
		case s.Items != nil:
			s = s.Items
		case len(s.Properties) > 0:
			return s
		case len(s.AnyOf) > 0:
			s = oneObject(s.AnyOf)
		case len(s.AllOf) > 0:
			s = oneObject(s.AllOf)
		case s.Values != nil:
			s = s.Values
		default:
			return s
		}
	}
	return &schema{}
}

// oneObject returns the first schema that can lead to an object, or otherwise the first one. A member that can be null has
// two types, and null can be the first one.
func oneObject(all []*schema) *schema {
	leads := func(s *schema) bool { return s != nil && (s.Ref != "" || s.Items != nil || len(s.Properties) > 0) }
	return all[max(slices.IndexFunc(all, leads), 0)]
}

// target returns the name of the object to which a reference leads.
func target(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// description returns the description of a schema, or of what it refers to.
func (d *Document) description(s *schema) string {
	for range maxReferences {
		if s == nil || s.Description != "" || s.Ref == "" {
			break
		}
		s = d.schemas[target(s.Ref)]
	}
	if s == nil {
		return ""
	}
	if s.Description == "" && len(s.AnyOf) > 0 {
		return d.object(s).Description
	}
	return s.Description
}

// typeOf returns the type of a schema for people: integer, 0 to 100; queued | running; [Artifact].
func (d *Document) typeOf(s *schema) string {
	switch {
	case s == nil:
		return "any"
	case s.Ref != "":
		name := target(s.Ref)
		if named := d.schemas[name]; named != nil && named.Ref == "" && len(named.Enum) > 0 {
			return join(named.Enum, " | ")
		}
		return name
	case s.Const != nil:
		return fmt.Sprint(s.Const)
	case len(s.Enum) > 0:
		return join(s.Enum, " | ") + standard(s)
	case len(s.AnyOf) > 0:
		return d.joinTypes(s.AnyOf) + standard(s)
	case len(s.AllOf) > 0:
		return d.joinTypes(s.AllOf)
	case s.Items != nil:
		return "[" + d.typeOf(s.Items) + "]" + bounds(s)
	case s.Values != nil && len(s.Properties) == 0:
		return "{text: " + d.typeOf(s.Values) + "}"
	}
	return named(s.Type) + bounds(s) + standard(s)
}

// standard returns the default value.
func standard(s *schema) string {
	if s.Default == nil {
		return ""
	}
	raw, err := json.Marshal(s.Default)
	if err != nil {
		return ""
	}
	return ", default " + string(raw)
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

// bounds returns the limits of a number, a text or a list, and the form of a text.
func bounds(s *schema) string {
	out := between(s.Minimum, s.Maximum, "") + between(s.MinLength, s.MaxLength, " characters") + between(s.MinItems, s.MaxItems, " elements")
	switch {
	case s.Format == "date-time":
		out += ", such as 2026-01-31T10:00:00Z" // a pattern would only repeat the format
	case s.Pattern != "":
		out += ", that matches " + s.Pattern
	}
	return out
}

func between(low, high json.Number, unit string) string {
	switch {
	case low != "" && high != "":
		return fmt.Sprintf(", %s to %s%s", low, high, unit)
	case low != "":
		return fmt.Sprintf(", at least %s%s", low, unit)
	case high != "":
		return fmt.Sprintf(", at most %s%s", high, unit)
	}
	return ""
}
