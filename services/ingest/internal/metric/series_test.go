package metric

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// resolveByDefinition is a direct implementation of the definition of resolve: a point is visible unless a newer
// attempt reported the same step or an earlier one.
func resolveByDefinition(h history) map[int64]Seen {
	out := map[int64]Seen{}
	for attempt, steps := range h {
		for step, p := range steps {
			hidden := false
			for other, theirs := range h {
				for s := range theirs {
					hidden = hidden || other > attempt && s <= step
				}
			}
			if !hidden {
				out[step] = p
			}
		}
	}
	return out
}

func TestHistory_resolve_matchesDefinition(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		h := history{}
		for range draw.IntN(30) {
			h.add(int32(1+draw.IntN(4)), Point{Step: int64(draw.IntN(12) - 4), Value: draw.Float64()})
		}
		got := h.resolve()
		want := resolveByDefinition(h)
		require.Len(t, got, len(want))
		for i, p := range got {
			require.Equal(t, want[p.Step], p)
			require.True(t, i == 0 || got[i-1].Step < p.Step, "sorted by step, without duplicates")
		}
	}
}

func TestHistory_resolve_extremeSteps(t *testing.T) {
	t.Parallel()
	h := history{}
	h.add(1, Point{Step: math.MinInt64})
	h.add(1, Point{Step: math.MaxInt64})
	h.add(2, Point{Step: math.MaxInt64})
	require.Equal(t, []Seen{{Step: math.MinInt64, Attempt: 1}, {Step: math.MaxInt64, Attempt: 2}}, h.resolve())
	h.add(3, Point{Step: math.MinInt64})
	require.Equal(t, []Seen{{Step: math.MinInt64, Attempt: 3}}, h.resolve())
}

func TestExtremes_keepOrder(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	cases := map[string]struct {
		values []float64
		want   []int
	}{
		"one point":               {[]float64{7}, []int{0}},
		"rising":                  {[]float64{1, 2, 3}, []int{0, 2}},
		"falling":                 {[]float64{3, 2, 1}, []int{0, 2}},
		"equal values":            {[]float64{5, 5, 5}, []int{0}},
		"a spike and a dip":       {[]float64{5, 9, 5, 1, 5}, []int{1, 3}},
		"only NaN":                {[]float64{nan, nan}, []int{1}},
		"NaN among numbers":       {[]float64{2, nan, 1, 3}, []int{1, 2, 3}},
		"infinities are extremes": {[]float64{0, -inf, 1, inf, nan}, []int{1, 3, 4}},
		"a number after NaN":      {[]float64{nan, 4}, []int{0, 1}},
		"no points":               {nil, nil},
	}
	for name, c := range cases {
		section := make([]Seen, len(c.values))
		for i, v := range c.values {
			section[i] = Seen{Step: int64(i), Value: v}
		}
		var got []int
		for _, p := range extremes(section) {
			got = append(got, int(p.Step))
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestThin_boundsPointsAndKeepsEnds(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 5, 99, 100, 101, 1000, 4321} {
		points := make([]Seen, n)
		for i := range points {
			points[i] = Seen{Step: int64(i), Value: float64(i % 7)}
		}
		for _, most := range []int{5, 8, 100, 180} {
			got := Thin(points, most)
			require.LessOrEqual(t, len(got), most, "%d to %d", n, most)
			if n == 0 {
				require.Empty(t, got)
				continue
			}
			require.Equal(t, points[0], got[0])
			require.Equal(t, points[n-1], got[len(got)-1])
			for i := 1; i < len(got); i++ {
				require.Less(t, got[i-1].Step, got[i].Step, "%d to %d", n, most)
			}
			if n <= most {
				require.Equal(t, points, got, "a series that fits is not thinned")
			}
		}
	}
}

func TestKeys_get_returnsCopyAndIsBounded(t *testing.T) {
	t.Parallel()
	k := NewKeys()
	d := k.get("run_0")
	d.add([]string{"a"})
	require.Empty(t, k.get("run_0").names, "keys are cached only by put")
	k.put("run_0", d)
	again := k.get("run_0")
	again.add([]string{"b"})
	require.Equal(t, []string{"a"}, k.get("run_0").names)
	require.Equal(t, map[string]int32{"a": 1, "b": 2}, again.ids)
	for i := range maxRemembered + 50 {
		k.put(fmt.Sprintf("run_%d", i), d)
		require.LessOrEqual(t, len(k.runs), maxRemembered)
	}
	require.Equal(t, []string{"a"}, k.get(fmt.Sprintf("run_%d", maxRemembered+49)).names, "the run that was stored last is cached")
}
