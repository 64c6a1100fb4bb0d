package metric

import (
	"cmp"
	"math"
	"slices"
)

// Seen is a point as a reader sees it.
type Seen struct {
	Step    int64
	Value   float64
	Micros  int64
	Attempt int32
}

// history is everything that was reported of one key, attempt by attempt.
type history map[int32]map[int64]Seen

// add keeps a point; the later one of an attempt wins.
func (h history) add(attempt int32, p Point) {
	steps := h[attempt]
	if steps == nil {
		steps = map[int64]Seen{}
		h[attempt] = steps
	}
	steps[p.Step] = Seen{Step: p.Step, Value: p.Value, Micros: p.Micros, Attempt: attempt}
}

// resolve answers what counts, by step: an attempt that reports a step hides what older attempts reported
// of the key from that step on.
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

// Thin keeps at most so many points: the first, the last, and of each stretch between them the least and
// the greatest, and one that is no number where there is one.
func Thin(points []Seen, most int) []Seen {
	if len(points) <= most {
		return points
	}
	const kept = 3
	buckets := max(1, (most-2)/kept)
	inner := points[1 : len(points)-1]
	out := []Seen{points[0]}
	for b := range buckets {
		stretch := inner[b*len(inner)/buckets : (b+1)*len(inner)/buckets]
		out = append(out, extremes(stretch)...)
	}
	return append(out, points[len(points)-1])
}

// extremes answers the points of a stretch that a chart must show, in their order.
func extremes(stretch []Seen) []Seen {
	low, high, odd := -1, -1, -1
	var least, greatest float64
	for i, p := range stretch {
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
			out = append(out, stretch[n])
		}
	}
	return out
}
