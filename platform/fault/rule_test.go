package fault_test

import (
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func violation(id string, path ...*validate.FieldPathElement) *validate.Violation {
	return &validate.Violation{
		RuleId: new(id), Message: new("own words"), Field: &validate.FieldPath{Elements: path},
	}
}

func element(name string) *validate.FieldPathElement {
	return &validate.FieldPathElement{FieldName: new(name)}
}

func TestFromViolation(t *testing.T) {
	t.Parallel()
	cases := []struct {
		id           string
		limit, input any
		typ, msg     string
		ctx          map[string]any
	}{
		{"required", nil, nil, "missing", "Field required", nil},
		{"message.oneof", nil, nil, "missing", "Field required", nil},
		{"string.min_len", uint64(3), nil, "string_too_short", "String should have at least 3 characters", map[string]any{"min_length": uint64(3)}},
		{"string.max_len", uint64(9), nil, "string_too_long", "String should have at most 9 characters", map[string]any{"max_length": uint64(9)}},
		{"string.max_len", nil, nil, "string_too_long", "own words", nil},
		{"string.pattern", "^a$", nil, "string_pattern_mismatch", "String should match pattern '^a$'", map[string]any{"pattern": "^a$"}},
		{"string.in", nil, nil, "enum", "own words", nil},
		{"string.in", []string{"", "a", "b", "c"}, nil, "enum", "Input should be 'a', 'b' or 'c'", nil},
		{"string.in", []string{"a"}, nil, "enum", "Input should be 'a'", nil},
		{"string.const", nil, nil, "literal_error", "own words", nil},
		{"string.uuid", nil, nil, "uuid_parsing", "own words", nil},
		{"string.uri", nil, nil, "url_parsing", "own words", nil},
		{"string.email", nil, nil, "value_error", "own words", nil},
		{"bytes.max_len", uint64(4), nil, "bytes_too_long", "Data should have at most 4 bytes", map[string]any{"max_length": uint64(4)}},
		{"repeated.min_items", uint64(1), nil, "too_short", "List should have at least 1 items", map[string]any{"min_length": uint64(1)}},
		{"repeated.max_items", uint64(2), nil, "too_long", "List should have at most 2 items", map[string]any{"max_length": uint64(2)}},
		{"repeated.unique", nil, nil, "value_error", "own words", nil},
		{"map.max_pairs", uint64(2), nil, "too_long", "List should have at most 2 items", map[string]any{"max_length": uint64(2)}},
		{"enum.defined_only", nil, int32(9), "enum", "own words", nil},
		{"int32.gte", int32(1), int32(0), "greater_than_equal", "Input should be greater than or equal to 1", map[string]any{"ge": int32(1)}},
		{"int64.lte", int64(5), int64(6), "less_than_equal", "Input should be less than or equal to 5", map[string]any{"le": int64(5)}},
		{"double.gt", 0.5, 0.5, "greater_than", "Input should be greater than 0.5", map[string]any{"gt": 0.5}},
		{"float.lt", float32(2), float32(2), "less_than", "Input should be less than 2", map[string]any{"lt": float32(2)}},
		{"uint32.gte_lte", uint32(1), uint32(0), "greater_than_equal", "Input should be greater than or equal to 1", map[string]any{"ge": uint32(1)}},
		{"int32.gte_lte", int32(1), int32(501), "less_than_equal", "own words", nil},
		{"uint64.gt_lt", uint64(1), uint64(1), "greater_than", "Input should be greater than 1", map[string]any{"gt": uint64(1)}},
		{"int32.gt_lt_exclusive", int32(9), int32(5), "greater_than", "Input should be greater than 9", map[string]any{"gt": int32(9)}},
		{"double.finite", nil, nil, "finite_number", "Input should be a finite number", nil},
		{"int32.not_in", nil, int32(3), "value_error", "own words", nil},
		{"job.ends_after_start", nil, nil, "value_error", "own words", nil},
	}
	for _, c := range cases {
		f := fault.FromViolation(violation(c.id, element("size")), c.limit, c.input)
		require.Equal(t, fault.Field{Loc: []any{"size"}, Msg: c.msg, Type: c.typ, Input: c.input, Ctx: c.ctx}, f, c.id)
	}
}

func TestLoc_nestedFields(t *testing.T) {
	t.Parallel()
	index, key, num := element("pools"), element("labels"), element("ports")
	index.Subscript = &validate.FieldPathElement_Index{Index: 2}
	key.Subscript = &validate.FieldPathElement_StringKey{StringKey: "a.b"}
	num.Subscript = &validate.FieldPathElement_IntKey{IntKey: -4}
	f := fault.FromViolation(violation("required", element("spec"), index, key, num, element("name")), nil, nil)
	require.Equal(t, []any{"spec", "pools", 2, "labels", "a.b", "ports", "-4", "name"}, f.Loc)

	flag, unsigned := element("flags"), element("ids")
	flag.Subscript = &validate.FieldPathElement_BoolKey{BoolKey: true}
	unsigned.Subscript = &validate.FieldPathElement_UintKey{UintKey: 7}
	require.Equal(t, []any{"flags", "true", "ids", "7"}, fault.Loc(&validate.FieldPath{Elements: []*validate.FieldPathElement{flag, unsigned}}))
}

func TestFromViolation_messageRule(t *testing.T) {
	t.Parallel()
	f := fault.FromViolation(&validate.Violation{RuleId: new("job.rule")}, nil, nil)
	require.Equal(t, []any{}, f.Loc)
	require.Equal(t, "Input is not valid", f.Msg)
}
