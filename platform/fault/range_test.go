package fault_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// A range has one rule id and one limit, its lower end; which end was missed shows in the input.
func TestARangeTellsTheEndThatWasMissed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id           string
		limit, input any
		typ          string
		ctx          map[string]any
	}{
		"under a closed end":            {"int32.gte_lte", int32(1), int32(0), fault.TypeGreaterThanEqual, map[string]any{"ge": int32(1)}},
		"over a closed end":             {"int32.gte_lte", int32(1), int32(9), fault.TypeLessThanEqual, nil},
		"at an open lower end":          {"int64.gt_lt", int64(1), int64(1), fault.TypeGreaterThan, map[string]any{"gt": int64(1)}},
		"over an open end":              {"int64.gt_lt", int64(1), int64(9), fault.TypeLessThan, nil},
		"half open, under":              {"uint64.gt_lte", uint64(3), uint64(3), fault.TypeGreaterThan, map[string]any{"gt": uint64(3)}},
		"half open, over":               {"uint32.gte_lt", uint32(3), uint32(7), fault.TypeLessThan, nil},
		"floats":                        {"double.gte_lte", 0.5, 0.25, fault.TypeGreaterThanEqual, map[string]any{"ge": 0.5}},
		"small floats":                  {"float.gte_lte", float32(0.5), float32(2), fault.TypeLessThanEqual, nil},
		"not a number":                  {"duration.gte_lte", "1s", "0s", fault.TypeGreaterThanEqual, map[string]any{"ge": "1s"}},
		"outside, between the two ends": {"int32.gte_lt_exclusive", int32(9), int32(10), fault.TypeLessThan, nil},
		"an unknown input":              {"int32.gte_lte", int32(1), nil, fault.TypeGreaterThanEqual, map[string]any{"ge": int32(1)}},
		"an unknown limit":              {"int32.gte_lte", nil, int32(1), fault.TypeGreaterThanEqual, nil},
	} {
		f := fault.FromViolation(violation(c.id, element("size")), c.limit, c.input)
		require.Equal(t, c.typ, f.Type, name)
		require.Equal(t, c.ctx, f.Ctx, name)
		require.Equal(t, c.ctx == nil, f.Msg == "own words", "%s: a limit that is not known is not told: %s", name, f.Msg)
	}
}
