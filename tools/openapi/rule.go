package main

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// rules are the protovalidate rules of a field, of the items of a list, or of the keys or values of a map. The zero
// value has no rules. They are read by name from buf.validate in the image, which this generator does not import.
type rules struct{ m protoreflect.Message }

func (r rules) value(name protoreflect.Name) (protoreflect.Value, bool) {
	if r.m == nil {
		return protoreflect.Value{}, false
	}
	fd := r.m.Descriptor().Fields().ByName(name)
	if fd == nil || !r.m.Has(fd) {
		return protoreflect.Value{}, false
	}
	return r.m.Get(fd), true
}

func (r rules) truth(name protoreflect.Name) bool {
	v, ok := r.value(name)
	return ok && v.Bool()
}

func (r rules) inner(name protoreflect.Name) rules {
	v, ok := r.value(name)
	if !ok {
		return rules{}
	}
	return rules{v.Message()}
}

// typed returns the rules for the field's type and their name, such as `string`, `int32` or `repeated`.
func (r rules) typed() (string, rules) {
	if r.m == nil {
		return "", rules{}
	}
	oneof := r.m.Descriptor().Oneofs().ByName("type")
	if oneof == nil {
		return "", rules{}
	}
	fd := r.m.WhichOneof(oneof)
	if fd == nil {
		return "", rules{}
	}
	return string(fd.Name()), rules{r.m.Get(fd).Message()}
}

// list returns a repeated rule such as `in`, with JSON values.
func (r rules) list(name protoreflect.Name) []any {
	v, ok := r.value(name)
	if !ok {
		return nil
	}
	out := make([]any, v.List().Len())
	for i := range out {
		out[i] = scalarOf(v.List().Get(i))
	}
	return out
}

func scalarOf(v protoreflect.Value) any {
	switch x := v.Interface().(type) {
	case protoreflect.EnumNumber:
		return int64(x)
	case int32:
		return int64(x)
	case uint32:
		return int64(x)
	default:
		return x
	}
}

// word maps a protovalidate rule to its name in JSON Schema.
type word struct {
	rule protoreflect.Name
	name string
}

// formats are the well-known string formats of JSON Schema.
func formats() []word {
	return []word{{"email", "email"}, {"uri", "uri"}, {"uri_ref", "uri-reference"}, {"uuid", "uuid"}, {"hostname", "hostname"}, {"ipv4", "ipv4"}, {"ipv6", "ipv6"}}
}

// apply adds the rules to the schema of a value.
func (r rules) apply(schema *object) {
	kind, t := r.typed()
	switch kind {
	case "":
	case "string":
		t.text(schema)
	case "bytes":
		t.sized(schema, "min_len", "max_len", "minLength", "maxLength")
	case "repeated":
		t.sized(schema, "min_items", "max_items", "minItems", "maxItems")
		if t.truth("unique") {
			schema.set("uniqueItems", true)
		}
	case "map":
		t.sized(schema, "min_pairs", "max_pairs", "minProperties", "maxProperties")
	default:
		t.number(schema)
	}
}

// emailOrEmpty adds the format to the schema of a text that must be an e-mail address or empty. Such a field has an
// expression with the id of the rule for addresses, because that rule itself refuses the empty text.
func (r rules) emailOrEmpty(schema *object) {
	v, ok := r.value("cel")
	if !ok {
		return
	}
	for i := range v.List().Len() {
		if id, ok := (rules{v.List().Get(i).Message()}).value("id"); ok && id.String() == "string.email" {
			schema.set("anyOf", []any{obj("const", ""), obj("format", "email")})
		}
	}
}

func (r rules) sized(schema *object, low, high protoreflect.Name, lowest, highest string) {
	if v, ok := r.value(low); ok {
		schema.set(lowest, int64(v.Uint()))
	}
	if v, ok := r.value(high); ok {
		schema.set(highest, int64(v.Uint()))
	}
}

func (r rules) text(schema *object) {
	if v, ok := r.value("len"); ok {
		schema.set("minLength", int64(v.Uint()))
		schema.set("maxLength", int64(v.Uint()))
	}
	if v, ok := r.value("min_bytes"); ok && v.Uint() > 0 {
		schema.set("minLength", int64(1))
	}
	// A text has at most as many characters as bytes, so a maximum of bytes is also a maximum of characters.
	r.sized(schema, "min_len", "max_bytes", "minLength", "maxLength")
	r.sized(schema, "min_len", "max_len", "minLength", "maxLength")
	if v, ok := r.value("pattern"); ok {
		schema.set("pattern", v.String())
	}
	for _, part := range []word{{"prefix", "^%"}, {"suffix", "%$"}, {"contains", "%"}} {
		if v, ok := r.value(part.rule); ok {
			schema.set("pattern", strings.Replace(part.name, "%", regexp.QuoteMeta(v.String()), 1))
		}
	}
	for _, format := range formats() {
		if r.truth(format.rule) {
			schema.set("format", format.name)
		}
	}
	r.choice(schema)
}

func (r rules) choice(schema *object) {
	if v, ok := r.value("const"); ok {
		schema.set("const", scalarOf(v))
	}
	if in := r.list("in"); in != nil {
		schema.set("enum", in)
	}
	if out := r.list("not_in"); out != nil {
		schema.set("not", obj("enum", out))
	}
}

func (r rules) number(schema *object) {
	for _, bound := range []word{{"gte", "minimum"}, {"gt", "exclusiveMinimum"}, {"lte", "maximum"}, {"lt", "exclusiveMaximum"}} {
		v, ok := r.value(bound.rule)
		if !ok {
			continue
		}
		switch bound.name {
		case "exclusiveMinimum":
			schema.drop("minimum")
		case "exclusiveMaximum":
			schema.drop("maximum")
		}
		schema.set(bound.name, scalarOf(v))
	}
	r.choice(schema)
}

// needed reports whether a request must contain the field: the field is marked as required, or it has no presence and
// its zero value violates a rule.
func needed(fd protoreflect.FieldDescriptor, r rules) bool {
	if r.truth("required") {
		return true
	}
	if fd.HasPresence() || r.m == nil {
		return false
	}
	if v, ok := r.value("ignore"); ok && v.Enum() != 0 {
		return false
	}
	kind, t := r.typed()
	switch kind {
	case "":
		return false
	case "string":
		return t.refusesEmpty()
	case "bytes":
		return t.least("min_len") > 0 || t.least("len") > 0
	case "repeated":
		return t.least("min_items") > 0
	case "map":
		return t.least("min_pairs") > 0
	default:
		return t.refusesZero()
	}
}

func (r rules) least(name protoreflect.Name) uint64 {
	v, ok := r.value(name)
	if !ok {
		return 0
	}
	return v.Uint()
}

func (r rules) refusesEmpty() bool {
	if r.least("min_len") > 0 || r.least("len") > 0 || r.least("min_bytes") > 0 {
		return true
	}
	for _, format := range formats() {
		if r.truth(format.rule) && format.rule != "uri_ref" {
			return true
		}
	}
	if v, ok := r.value("pattern"); ok {
		re, err := regexp.Compile(v.String())
		if err == nil && !re.MatchString("") {
			return true
		}
	}
	if in := r.list("in"); in != nil && !slices.Contains(in, any("")) {
		return true
	}
	v, ok := r.value("const")
	return ok && v.String() != ""
}

func (r rules) refusesZero() bool {
	bound := func(name protoreflect.Name, absent float64) float64 {
		v, ok := r.value(name)
		if !ok {
			return absent
		}
		switch x := scalarOf(v).(type) {
		case int64:
			return float64(x)
		case uint64:
			return float64(x)
		case float64:
			return x
		default:
			return absent
		}
	}
	if bound("gte", -1) > 0 || bound("gt", -1) >= 0 || bound("lte", 1) < 0 || bound("lt", 1) <= 0 || bound("const", 0) != 0 {
		return true
	}
	if in := r.list("in"); in != nil && !slices.ContainsFunc(in, isZero) {
		return true
	}
	return slices.ContainsFunc(r.list("not_in"), isZero)
}

func isZero(v any) bool {
	switch x := v.(type) {
	case int64:
		return x == 0
	case uint64:
		return x == 0
	case float64:
		return math.Abs(x) == 0
	default:
		return false
	}
}
