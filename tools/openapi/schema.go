package main

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// way is the direction of a message. The schema of a request has other bounds than that of a response.
type way int

const (
	sent way = iota
	got
)

const (
	timestamp  = protoreflect.FullName("google.protobuf.Timestamp")
	empty      = protoreflect.FullName("google.protobuf.Empty")
	ruleOption = protoreflect.FullName("buf.validate.field")
	rawOption  = protoreflect.FullName("signalbox.options.v1.raw_json")
	// namedOption marks lists that a request must contain.
	namedOption = protoreflect.FullName("signalbox.options.v1.named")
	// timePattern is the time format of responses: UTC, six decimal places, numeric offset.
	timePattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\+00:00$`
)

// message returns the schema of a message. It omits the fields in the parameter leave, because the path sets them.
func (g *generator) message(md protoreflect.MessageDescriptor, w way, leave []string) (*object, error) {
	schema := obj("type", "object")
	if text := g.comment(md, ""); text != "" {
		schema.set("description", text)
	}
	properties := obj()
	var required []any
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if slices.Contains(leave, string(fd.Name())) {
			continue
		}
		r, err := g.rules(fd)
		if err != nil {
			return nil, err
		}
		property, err := g.property(fd, r, w)
		if err != nil {
			return nil, err
		}
		properties.set(string(fd.Name()), property)
		named, err := g.named(fd)
		if err != nil {
			return nil, err
		}
		if w == got || named || needed(fd, r) {
			required = append(required, string(fd.Name()))
		}
	}
	schema.set("properties", properties)
	if len(required) > 0 {
		schema.set("required", required)
	}
	if w == sent || g.closed(md) {
		schema.set("additionalProperties", false)
	}
	return schema, nil
}

func (g *generator) rules(fd protoreflect.FieldDescriptor) (rules, error) {
	v, ok, err := g.surface.Option(fd, ruleOption)
	if err != nil || !ok {
		return rules{}, err
	}
	return rules{v.Message()}, nil
}

// property returns the schema of a field, with its comment.
func (g *generator) property(fd protoreflect.FieldDescriptor, r rules, w way) (*object, error) {
	schema, err := g.field(fd, r, w)
	if err != nil {
		return nil, err
	}
	// created_at is always set.
	always := r.truth("required") || w == got && fd.Name() == "created_at"
	if fd.HasPresence() && !always && !fd.IsList() && !fd.IsMap() {
		schema = nullable(schema)
	}
	if text := g.comment(fd, ""); text != "" {
		schema.set("description", text) // OpenAPI 3.1 permits a description beside $ref
	}
	return schema, nil
}

// nullable returns the given schema extended by null, which stands for an unset value.
func nullable(schema *object) *object {
	typ, single := schema.get("type").(string)
	if !single {
		if schema.len() == 0 {
			return schema // any value, including null
		}
		options, ok := schema.get("anyOf").([]any)
		if !ok {
			return obj("anyOf", []any{schema, obj("type", "null")})
		}
		schema.set("anyOf", append(options, obj("type", "null")))
		return schema
	}
	schema.set("type", []any{typ, "null"})
	for _, word := range []string{"enum"} {
		if values, ok := schema.get(word).([]any); ok {
			schema.set(word, append(slices.Clone(values), nil))
		}
	}
	return schema
}

func (g *generator) field(fd protoreflect.FieldDescriptor, r rules, w way) (*object, error) {
	_, typed := r.typed()
	switch {
	case fd.IsList():
		items, err := g.value(fd, typed.inner("items"), w)
		if err != nil {
			return nil, err
		}
		schema := obj("type", "array", "items", items)
		r.apply(schema)
		return schema, nil
	case fd.IsMap():
		values, err := g.value(fd.MapValue(), typed.inner("values"), w)
		if err != nil {
			return nil, err
		}
		schema := obj("type", "object", "additionalProperties", values)
		names := obj()
		typed.inner("keys").apply(names)
		if names.len() > 0 {
			schema.set("propertyNames", names)
		}
		r.apply(schema)
		return schema, nil
	default:
		return g.value(fd, r, w)
	}
}

// named reports whether a request must contain the list fd, which may be empty.
func (g *generator) named(fd protoreflect.FieldDescriptor) (bool, error) {
	v, ok, err := g.surface.Option(fd, namedOption)
	return ok && err == nil && v.Bool(), err
}

// value returns the schema of a single value: a field that is not repeated, a list's item or a map's value.
func (g *generator) value(fd protoreflect.FieldDescriptor, r rules, w way) (*object, error) {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return g.object(fd.Message(), w), nil
	case protoreflect.EnumKind:
		return enumOf(fd.Enum(), r), nil
	case protoreflect.BytesKind:
		raw, ok, err := g.surface.Option(fd, rawOption)
		if err != nil {
			return nil, err
		}
		if ok && raw.Bool() {
			return obj(), nil // any JSON value
		}
		return obj("type", "string", "contentEncoding", "base64"), nil
	case protoreflect.StringKind:
		schema := obj("type", "string")
		r.apply(schema)
		r.emailOrEmpty(schema)
		return schema, nil
	case protoreflect.BoolKind:
		return obj("type", "boolean"), nil
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return floatOf(r), nil
	default:
		schema := integerOf(fd.Kind(), w)
		r.apply(schema)
		return schema, nil
	}
}

func (g *generator) object(md protoreflect.MessageDescriptor, w way) *object {
	switch md.FullName() {
	case timestamp:
		schema := obj("type", "string", "format", "date-time")
		if w == got {
			schema.set("pattern", timePattern)
		}
		return schema
	case empty:
		return obj("type", "object")
	default:
		return obj("$ref", "#/components/schemas/"+g.names.of(md, w))
	}
}

// enumOf lists the values of an enum, except those that the rules exclude.
func enumOf(ed protoreflect.EnumDescriptor, r rules) *object {
	_, typed := r.typed()
	in, out := typed.list("in"), typed.list("not_in")
	prefix := strings.TrimSuffix(string(ed.Values().Get(0).Name()), "UNSPECIFIED")
	var words []any
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		number := any(int64(v.Number()))
		if v.Number() == 0 || in != nil && !slices.Contains(in, number) || slices.Contains(out, number) {
			continue
		}
		words = append(words, strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix)))
	}
	return obj("type", "string", "enum", words)
}

// floatOf returns the schema of a number. It also allows the strings "NaN", "Infinity" and "-Infinity", unless a rule
// restricts the number.
func floatOf(r rules) *object {
	schema := obj("type", "number")
	_, typed := r.typed()
	r.apply(schema)
	if typed.truth("finite") || schema.len() > 1 {
		return schema
	}
	return obj("anyOf", []any{schema, obj("type", "string", "enum", []any{"NaN", "Infinity", "-Infinity"})})
}

// integerOf returns the schema of an integer. In requests, it has the bounds of the integer's type; in responses, the
// value always fits.
func integerOf(kind protoreflect.Kind, w way) *object {
	schema := obj("type", "integer")
	var low, high any
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		schema.set("format", "int32")
		low, high = int64(math.MinInt32), int64(math.MaxInt32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		low, high = int64(0), int64(math.MaxUint32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		low, high = int64(0), uint64(math.MaxUint64)
	default:
		schema.set("format", "int64")
		low, high = int64(math.MinInt64), int64(math.MaxInt64)
	}
	if w == sent {
		schema.set("minimum", low)
		schema.set("maximum", high)
	}
	return schema
}

// comment returns the proto comment of d, each paragraph on one line, without the leading name.
func (g *generator) comment(d protoreflect.Descriptor, name string) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		words := strings.Fields(paragraph)
		if len(words) > 0 {
			paragraphs = append(paragraphs, strings.Join(words, " "))
		}
	}
	whole := strings.Join(paragraphs, "\n\n")
	rest, found := strings.CutPrefix(whole, name+" ")
	if name == "" || !found {
		return whole
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}
