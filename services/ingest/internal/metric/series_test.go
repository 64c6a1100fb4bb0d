package metric

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// reports are the reported points of one key, in the order of their reports.
type reports []reported

type reported struct {
	attempt int32
	Point
}

func (r *reports) add(attempt int32, p Point) { *r = append(*r, reported{attempt, p}) }

// hiddenFrom returns the lowest step that each attempt hides if it resumed without a checkpoint.
func hiddenFrom(keys ...reports) map[int32]int64 {
	out := map[int32]int64{}
	for _, r := range keys {
		for _, p := range r {
			if low, ok := out[p.attempt]; p.attempt > 1 && (!ok || p.Step < low) {
				out[p.attempt] = p.Step
			}
		}
	}
	return out
}

// view returns a view with the given room, to which the points were added.
func (r *reports) view(room int) *view {
	v := newView(room)
	for attempt, low := range hiddenFrom(*r) {
		v.bounds = append(v.bounds, bound{attempt, low})
	}
	v.bounds = sealed(v.bounds)
	for _, p := range *r {
		v.add(p.attempt, p.Point)
	}
	return v
}

// seenByDefinition is a direct implementation of the definition: a point is visible unless a newer attempt hides its step,
// or a later report has the same step.
func (r *reports) seenByDefinition(hiddenFrom map[int32]int64) map[int64]Seen {
	out := map[int64]Seen{}
	for _, p := range *r {
		hidden := false
		for attempt, low := range hiddenFrom {
			hidden = hidden || attempt > p.attempt && p.Step >= low
		}
		if !hidden {
			out[p.Step] = Seen{Step: p.Step, Value: p.Value, Micros: p.Micros, Attempt: p.attempt}
		}
	}
	return out
}

// stands returns the number of reported points that points represent.
func stands(points []Seen) (n uint64) {
	for _, p := range points {
		n += uint64(p.more) + 1
	}
	return n
}

func TestView_seen_matchesDefinition(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var r reports
		for range draw.IntN(30) {
			r.add(int32(1+draw.IntN(4)), Point{Step: int64(draw.IntN(12) - 4), Value: draw.Float64()})
		}
		slices.SortStableFunc(r, func(x, y reported) int { return cmp.Compare(x.attempt, y.attempt) }) // an older attempt can no longer report
		want := r.seenByDefinition(hiddenFrom(r))
		for _, room := range []int{16, 100} { // 16 steps exist, so a view of this size stays complete
			got := r.view(room).seen(room)
			require.Len(t, got, len(want))
			for i, p := range got {
				p.more = 0
				require.Equal(t, want[p.Step], p)
				require.True(t, i == 0 || got[i-1].Step < p.Step, "sorted by step, without duplicates")
			}
		}
	}
}

func TestView_seen_extremeSteps(t *testing.T) {
	t.Parallel()
	var r reports
	r.add(1, Point{Step: math.MinInt64})
	r.add(1, Point{Step: math.MaxInt64})
	r.add(2, Point{Step: math.MaxInt64})
	require.Equal(t, []Seen{{Step: math.MinInt64, Attempt: 1}, {Step: math.MaxInt64, Attempt: 2}}, r.view(5).seen(5))
	r.add(3, Point{Step: math.MinInt64})
	require.Equal(t, []Seen{{Step: math.MinInt64, Attempt: 3}}, r.view(5).seen(5))
}

// A long series is thinned while it is read. Its beginning must not become coarser than its end, and no point that was
// replaced may appear.
func TestView_seen_thinsEvenly(t *testing.T) {
	t.Parallel()
	const steps, room = 200_000, 600
	var r reports
	for step := range int64(steps) {
		value := math.Sin(float64(step) / 1000)
		if step == 1234 || step == 160_000 {
			value = 9
		}
		r.add(1, Point{Step: step, Value: value})
	}
	for step := int64(100_000); step < 120_000; step++ { // the training repeats some steps
		r.add(1, Point{Step: step, Value: 5})
	}
	v := r.view(room)
	require.Less(t, cap(v.points), 4*room, "the view does not grow with the series")
	got := v.seen(300)
	require.LessOrEqual(t, len(got), 300)
	require.EqualValues(t, 0, got[0].Step)
	require.EqualValues(t, steps-1, got[len(got)-1].Step)
	found := map[int64]bool{}
	quarters := [4]int{}
	for i, p := range got {
		found[p.Step] = true
		quarters[p.Step*4/steps]++
		require.True(t, i == 0 || got[i-1].Step < p.Step, "in order, without duplicates")
		require.True(t, p.Step < 100_000 || p.Step >= 120_000 || p.Value == 5, "the replaced point %v must not appear", p)
	}
	require.True(t, found[1234] && found[160_000], "extremes stay")
	for q, n := range quarters {
		require.Greater(t, n, 40, "quarter %d of the series has its share of points: %v", q, quarters)
	}
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
		for _, p := range extremes(section, uint64(len(section)), nil) {
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
			got := Thin(slices.Clone(points), most)
			require.LessOrEqual(t, len(got), most, "%d points thinned to %d", n, most)
			if n == 0 {
				require.Empty(t, got)
				continue
			}
			require.Equal(t, points[0], got[0])
			require.Equal(t, points[n-1], got[len(got)-1])
			require.EqualValues(t, n, stands(got), "%d points thinned to %d", n, most)
			for i := 1; i < len(got); i++ {
				require.Less(t, got[i-1].Step, got[i].Step, "%d points thinned to %d", n, most)
			}
			if n <= most {
				require.Equal(t, points, got, "a series that fits is not thinned")
			}
		}
	}
}
