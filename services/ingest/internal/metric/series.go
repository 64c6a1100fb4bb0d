package metric

import (
	"cmp"
	"math"
	"slices"
)

// Seen is a point as readers see it.
type Seen struct {
	Step    int64
	Value   float64
	Micros  int64
	Attempt int32
}

// history holds the reported points of one key, by attempt and step.
type history map[int32]map[int64]Seen

// add adds a point. It replaces an earlier point of the same attempt and step.
func (h history) add(attempt int32, p Point) {
	steps := h[attempt]
	if steps == nil {
		steps = map[int64]Seen{}
		h[attempt] = steps
	}
	steps[p.Step] = Seen{Step: p.Step, Value: p.Value, Micros: p.Micros, Attempt: attempt}
}

// resolve returns the visible points, sorted by step. From the lowest step of an attempt on, the points of older
// attempts are hidden.
func (h history) resolve() []Seen {
	attempts := make([]int32, 0, len(h))
	for a := range h {
		attempts = append(attempts, a)
	}
	slices.Sort(attempts)
	slices.Reverse(attempts)
	var seen []Seen
	bound, bounded := int64(0), false
	for _, a := range attempts {
		low, first := int64(math.MaxInt64), true
		for step, p := range h[a] {
			if !bounded || step < bound {
				seen = append(seen, p)
			}
			if first || step < low {
				low, first = step, false
			}
		}
		if !bounded || low < bound {
			bound, bounded = low, true
		}
	}
	slices.SortFunc(seen, func(a, b Seen) int { return cmp.Compare(a.Step, b.Step) })
	return seen
}

// Thin reduces points to at most the given number, which must be at least 5. It keeps the first and the last point
// and, of each section between them, the lowest, the highest and the last NaN. Thin returns points unchanged if there
// are not too many.
func Thin(points []Seen, most int) []Seen {
	if len(points) <= most {
		return points
	}
	const kept = 3
	buckets := max(1, (most-2)/kept)
	inner := points[1 : len(points)-1]
	out := []Seen{points[0]}
	for b := range buckets {
		section := inner[b*len(inner)/buckets : (b+1)*len(inner)/buckets]
		out = append(out, extremes(section)...)
	}
	return append(out, points[len(points)-1])
}

// extremes returns the lowest point, the highest point and the last NaN of a section, in their order.
func extremes(section []Seen) []Seen {
	low, high, odd := -1, -1, -1
	var least, greatest float64
	for i, p := range section {
		if math.IsNaN(p.Value) {
			odd = i
			continue
		}
		if low < 0 || p.Value < least {
			low, least = i, p.Value
		}
		if high < 0 || p.Value > greatest {
			high, greatest = i, p.Value
		}
	}
	at := []int{low, high, odd}
	slices.Sort(at)
	var out []Seen
	for _, n := range slices.Compact(at) {
		if n >= 0 {
			out = append(out, section[n])
		}
	}
	return out
}
