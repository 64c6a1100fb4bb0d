package fault

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
)

// The values of Field.Type, which are FastAPI's error types.
const (
	TypeMissing          = "missing"
	TypeExtra            = "extra_forbidden"
	TypeJSON             = "json_invalid"
	TypeEnum             = "enum"
	TypeLiteral          = "literal_error"
	TypeValue            = "value_error"
	TypeStringType       = "string_type"
	TypeStringShort      = "string_too_short"
	TypeStringLong       = "string_too_long"
	TypeStringPattern    = "string_pattern_mismatch"
	TypeBytesShort       = "bytes_too_short"
	TypeBytesLong        = "bytes_too_long"
	TypeIntType          = "int_type"
	TypeIntParsing       = "int_parsing"
	TypeFloatType        = "float_type"
	TypeFloatParsing     = "float_parsing"
	TypeFinite           = "finite_number"
	TypeBoolType         = "bool_type"
	TypeBoolParsing      = "bool_parsing"
	TypeDatetime         = "datetime_parsing"
	TypeURL              = "url_parsing"
	TypeUUID             = "uuid_parsing"
	TypeListType         = "list_type"
	TypeDictType         = "dict_type"
	TypeShort            = "too_short"
	TypeLong             = "too_long"
	TypeGreaterThan      = "greater_than"
	TypeGreaterThanEqual = "greater_than_equal"
	TypeLessThan         = "less_than"
	TypeLessThanEqual    = "less_than_equal"
)

// rule describes how a violation is reported: its error type, FastAPI's name of the limit, and the message. If text
// is empty, the message of the violation itself is used.
type rule struct{ typ, limit, text string }

// ruleOf maps protovalidate's rule ids to rules.
func ruleOf(id string) rule {
	switch id {
	case "required", "message.oneof":
		return rule{typ: TypeMissing, text: "Field required"}
	case "string.min_len", "string.min_bytes":
		return rule{TypeStringShort, "min_length", "String should have at least %v characters"}
	case "string.max_len", "string.max_bytes":
		return rule{TypeStringLong, "max_length", "String should have at most %v characters"}
	case "string.pattern", "bytes.pattern":
		return rule{TypeStringPattern, "pattern", "String should match pattern '%v'"}
	case "string.in":
		return rule{typ: TypeEnum}
	case "string.const", "bool.const", "bytes.in", "bytes.const":
		return rule{typ: TypeLiteral}
	case "string.uri", "string.uri_ref", "string.uri_empty":
		return rule{typ: TypeURL}
	case "string.uuid", "string.tuuid", "string.uuid_empty", "string.tuuid_empty", "bytes.uuid", "bytes.uuid_empty":
		return rule{typ: TypeUUID}
	case "bytes.min_len":
		return rule{TypeBytesShort, "min_length", "Data should have at least %v bytes"}
	case "bytes.max_len":
		return rule{TypeBytesLong, "max_length", "Data should have at most %v bytes"}
	case "repeated.min_items", "map.min_pairs":
		return rule{TypeShort, "min_length", "List should have at least %v items"}
	case "repeated.max_items", "map.max_pairs":
		return rule{TypeLong, "max_length", "List should have at most %v items"}
	case "enum.defined_only", "enum.in", "enum.not_in", "enum.const":
		return rule{typ: TypeEnum}
	case "float.finite", "double.finite":
		return rule{TypeFinite, "", "Input should be a finite number"}
	default:
		return orderRule(id)
	}
}

// orderRule maps the rules common to all numbers, durations and timestamps.
func orderRule(id string) rule {
	_, name, _ := strings.Cut(id, ".")
	switch name {
	case "gt":
		return rule{TypeGreaterThan, "gt", "Input should be greater than %v"}
	case "gte":
		return rule{TypeGreaterThanEqual, "ge", "Input should be greater than or equal to %v"}
	case "lt":
		return rule{TypeLessThan, "lt", "Input should be less than %v"}
	case "lte":
		return rule{TypeLessThanEqual, "le", "Input should be less than or equal to %v"}
	case "in", "const":
		return rule{typ: TypeLiteral}
	default:
		return rule{typ: TypeValue}
	}
}

// FromViolation converts a protovalidate violation to a Field. The parameter limit is the rule's value, and input is
// the field's value, which must not be a secret. Either is nil if it is unknown. A range with two bounds has one rule
// id (int32.gte_lte), and its limit is the lower bound. FromViolation compares input with limit to determine which
// bound was violated.
func FromViolation(v *validate.Violation, limit, input any) Field {
	id := v.GetRuleId()
	loc := Loc(v.GetField())
	kind, name, _ := strings.Cut(id, ".")
	if low, high, both := strings.Cut(name, "_"); both && isOrder(low) {
		high = strings.TrimSuffix(high, "_exclusive")
		if below(input, limit) {
			id = kind + "." + low
		} else {
			id, limit = kind+"."+high, nil
		}
	}
	r := ruleOf(id)
	f := Field{Loc: loc, Msg: v.GetMessage(), Type: r.typ, Input: input}
	if f.Msg == "" {
		f.Msg = "Input is not valid"
	}
	names, listed := limit.([]string)
	switch {
	case listed:
		f.Msg = OneOf(names)
	case r.text == "":
	case r.limit == "":
		f.Msg = r.text
	case limit != nil:
		f.Msg = fmt.Sprintf(r.text, limit)
		f.Ctx = map[string]any{r.limit: limit}
	}
	return f
}

// OneOf returns a message with the allowed values: Input should be 'queued', 'running' or 'done'. It leaves out the
// empty value, which means that the field is not set.
func OneOf(words []string) string {
	quoted := make([]string, 0, len(words))
	for _, w := range words {
		if w != "" {
			quoted = append(quoted, "'"+w+"'")
		}
	}
	if last := len(quoted) - 1; last > 0 {
		return "Input should be " + strings.Join(quoted[:last], ", ") + " or " + quoted[last]
	}
	return "Input should be " + strings.Join(quoted, "")
}

// Loc returns the path of a violation.
func Loc(path *validate.FieldPath) []any {
	loc := []any{}
	for _, el := range path.GetElements() {
		loc = append(loc, el.GetFieldName())
		switch sub := el.GetSubscript().(type) {
		case *validate.FieldPathElement_Index:
			loc = append(loc, int(min(sub.Index, math.MaxInt32)))
		case *validate.FieldPathElement_StringKey:
			loc = append(loc, sub.StringKey)
		case *validate.FieldPathElement_IntKey:
			loc = append(loc, strconv.FormatInt(sub.IntKey, 10))
		case *validate.FieldPathElement_UintKey:
			loc = append(loc, strconv.FormatUint(sub.UintKey, 10))
		case *validate.FieldPathElement_BoolKey:
			loc = append(loc, strconv.FormatBool(sub.BoolKey))
		}
	}
	return loc
}

func isOrder(s string) bool { return s == "gt" || s == "gte" || s == "lt" || s == "lte" }

func below(input, limit any) bool {
	a, okA := number(input)
	b, okB := number(limit)
	return !okA || !okB || a <= b
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int32:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint32:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float32:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}
