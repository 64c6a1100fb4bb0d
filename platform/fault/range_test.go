package fault_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// A range has one rule id and one limit, the lower bound. The input shows which bound was violated.
func TestFromViolation_ranges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id           string
		limit, input any
		typ          string
		ctx          map[string]any
	}{
		"below inclusive bound":    {"int32.gte_lte", int32(1), int32(0), fault.TypeGreaterThanEqual, map[string]any{"ge": int32(1)}},
		"above inclusive bound":    {"int32.gte_lte", int32(1), int32(9), fault.TypeLessThanEqual, nil},
		"at exclusive lower bound": {"int64.gt_lt", int64(1), int64(1), fault.TypeGreaterThan, map[string]any{"gt": int64(1)}},
		"above exclusive bound":    {"int64.gt_lt", int64(1), int64(9), fault.TypeLessThan, nil},
		"half open, below":         {"uint64.gt_lte", uint64(3), uint64(3), fault.TypeGreaterThan, map[string]any{"gt": uint64(3)}},
		"half open, above":         {"uint32.gte_lt", uint32(3), uint32(7), fault.TypeLessThan, nil},
		"floats":                   {"double.gte_lte", 0.5, 0.25, fault.TypeGreaterThanEqual, map[string]any{"ge": 0.5}},
		"small floats":             {"float.gte_lte", float32(0.5), float32(2), fault.TypeLessThanEqual, nil},
		"not a number":             {"duration.gte_lte", "1s", "0s", fault.TypeGreaterThanEqual, map[string]any{"ge": "1s"}},
		"inside an excluded range": {"int32.gte_lt_exclusive", int32(9), int32(10), fault.TypeLessThan, nil},
		"unknown input":            {"int32.gte_lte", int32(1), nil, fault.TypeGreaterThanEqual, map[string]any{"ge": int32(1)}},
		"unknown limit":            {"int32.gte_lte", nil, int32(1), fault.TypeGreaterThanEqual, nil},
	} {
		f := fault.FromViolation(violation(c.id, element("size")), c.limit, c.input)
		require.Equal(t, c.typ, f.Type, name)
		require.Equal(t, c.ctx, f.Ctx, name)
		require.Equal(t, c.ctx == nil, f.Msg == "own words", "%s: an unknown limit must not appear in the message: %s", name, f.Msg)
	}
}
