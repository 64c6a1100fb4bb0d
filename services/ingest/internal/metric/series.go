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

	more uint32 // number of other points that Thin removed in favor of this one
}

// view collects the points of one key that readers see. It holds at most 2*room points, whatever the length of the
// series: whenever it is full, it thins the points to room. A series of at most room points stays complete.
type view struct {
	room   int
	points []Seen // sorted by step, except those that were added since the last call of compact
	// lows holds the lowest step of each attempt, until seal is called. bounds then holds the lowest step of that attempt
	// and of all newer ones, sorted by attempt.
	lows   map[int32]int64
	bounds []bound
}

// bound hides the points of older attempts from the step low on.
type bound struct {
	attempt int32
	low     int64
}

func newView(room int) *view { return &view{room: room} }

// began notes that an attempt has reported a step. It must be called for all points of all attempts but the oldest, and
// then seal, before any point is added.
func (v *view) began(attempt int32, step int64) {
	if v.lows == nil {
		v.lows = map[int32]int64{}
	}
	if low, ok := v.lows[attempt]; !ok || step < low {
		v.lows[attempt] = step
	}
}

func (v *view) seal() {
	v.bounds = make([]bound, 0, len(v.lows))
	for attempt, low := range v.lows {
		v.bounds = append(v.bounds, bound{attempt, low})
	}
	slices.SortFunc(v.bounds, func(a, b bound) int { return cmp.Compare(a.attempt, b.attempt) })
	for i := len(v.bounds) - 2; i >= 0; i-- {
		v.bounds[i].low = min(v.bounds[i].low, v.bounds[i+1].low)
	}
	v.lows = nil
}

// hidden reports whether a newer attempt has reported the same step or an earlier one.
func (v *view) hidden(attempt int32, step int64) bool {
	if len(v.bounds) == 0 {
		return false
	}
	at, _ := slices.BinarySearchFunc(v.bounds, attempt+1, func(b bound, attempt int32) int { return cmp.Compare(b.attempt, attempt) })
	return at < len(v.bounds) && step >= v.bounds[at].low
}

// add adds a point unless it is hidden. It replaces an earlier point of the same step.
func (v *view) add(attempt int32, p Point) {
	if v.hidden(attempt, p.Step) {
		return
	}
	v.points = append(v.points, Seen{Step: p.Step, Value: p.Value, Micros: p.Micros, Attempt: attempt})
	if len(v.points) >= 2*v.room {
		v.compact()
		v.points = Thin(v.points, v.room)
	}
}

// compact sorts the points by step and keeps the last point of each step.
func (v *view) compact() {
	byStep := func(a, b Seen) int { return cmp.Compare(a.Step, b.Step) }
	if !slices.IsSortedFunc(v.points, byStep) {
		slices.SortStableFunc(v.points, byStep)
	}
	kept := v.points[:0]
	for i, p := range v.points {
		if i+1 < len(v.points) && v.points[i+1].Step == p.Step {
			v.points[i+1].more = max(v.points[i+1].more, p.more)
			continue
		}
		kept = append(kept, p)
	}
	v.points = kept
}

// seen returns the points sorted by step, thinned to at most the given number. No point may be added later.
func (v *view) seen(most int) []Seen {
	v.compact()
	return slices.Clip(Thin(v.points, most))
}

// Thin reduces points to at most the given number, which must be at least 5, and reuses their memory. It keeps the first
// and the last point and, of each section between them, the lowest, the highest and the last NaN. The sections stand for
// about the same number of reported points each, including those that an earlier call has removed. Thin returns points
// unchanged if there are not too many.
func Thin(points []Seen, most int) []Seen {
	if len(points) <= most {
		return points
	}
	const kept = 3
	sections := uint64(max(1, (most-2)/kept))
	inner, last := points[1:len(points)-1], points[len(points)-1]
	total := uint64(0)
	for _, p := range inner {
		total += uint64(p.more) + 1
	}
	out := points[:1]
	before, begin := uint64(0), 0
	for s := range sections {
		end, until := begin, (s+1)*total/sections
		stands := uint64(0)
		for end < len(inner) && before+stands < until {
			stands += uint64(inner[end].more) + 1
			end++
		}
		// At most as many points are written as were read, so no point is overwritten before it is read.
		out = extremes(inner[begin:end], stands, out)
		before, begin = before+stands, end
	}
	return append(out, last)
}

// extremes appends the lowest point, the highest point and the last NaN of a section to out, in their order. They share
// the number of reported points for which the section stands.
func extremes(section []Seen, stands uint64, out []Seen) []Seen {
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
	var kept [3]Seen
	n := 0
	for i := range section {
		if i == low || i == high || i == odd {
			kept[n] = section[i]
			n++
		}
	}
	for i := range n {
		share := stands / uint64(n)
		if i == 0 {
			share += stands % uint64(n)
		}
		kept[i].more = uint32(min(share-1, math.MaxUint32))
		out = append(out, kept[i])
	}
	return out
}
