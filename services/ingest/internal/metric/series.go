package metric

import (
	"cmp"
	"context"
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
	attempts
}

func newView(room int) *view { return &view{room: room} }

// add adds a point unless it is hidden. It replaces an earlier point of the same step.
func (v *view) add(attempt int32, p Point) {
	if v.hidden(attempt, p.Step) {
		return
	}
	if len(v.points) == cap(v.points) {
		v.grow()
	}
	v.points = append(v.points, Seen{Step: p.Step, Value: p.Value, Micros: p.Micros, Attempt: attempt})
	if len(v.points) >= 2*v.room {
		v.compact()
		v.points = Thin(v.points, v.room)
	}
}

// addColumns adds the points of a block.
func (v *view) addColumns(attempt int32, c *blockPoints) {
	if v.selects() {
		for i, step := range c.steps {
			v.add(attempt, Point{Step: step, Value: c.values[i], Micros: c.micros[i]})
		}
		return
	}
	for i := 0; i < len(c.steps); {
		if len(v.points) == cap(v.points) {
			v.grow()
		}
		for end := min(len(c.steps), i+cap(v.points)-len(v.points), i+2*v.room-len(v.points)); i < end; i++ {
			v.points = append(v.points, Seen{Step: c.steps[i], Value: c.values[i], Micros: c.micros[i], Attempt: attempt})
		}
		if len(v.points) >= 2*v.room {
			v.compact()
			v.points = Thin(v.points, v.room)
		}
	}
}

// grow doubles the capacity of a short view. A longer view gets the capacity of a full view at once: the system
// provides memory only when it is used, while repeated copies of long slices would occupy several times the memory of
// the view.
func (v *view) grow() {
	const first, short = 256, 16 << 10
	size, full := max(first, 2*cap(v.points)), max(first, 2*v.room)
	if size > short || size > full {
		size = full
	}
	larger := make([]Seen, len(v.points), size)
	copy(larger, v.points)
	v.points = larger
}

// compact sorts the points by step and keeps the last point of each step.
func (v *view) compact() {
	ascending := true
	for i := 1; i < len(v.points) && ascending; i++ {
		ascending = v.points[i-1].Step < v.points[i].Step
	}
	if ascending {
		return
	}
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

// seen returns the points sorted by step, thinned to at most the given number. The view gives up its memory, so no
// point may be added later.
func (v *view) seen(most int) []Seen {
	v.compact()
	points := Thin(v.points, most)
	v.points = nil
	if cap(points) > len(points)+len(points)/4 {
		points = append(make([]Seen, 0, len(points)), points...) // the memory of the other points can be used again
	}
	return slices.Clip(points)
}

// complete returns the points sorted by step, and whether these are all points.
func (v *view) complete() ([]Seen, bool) {
	v.compact()
	thinned := slices.ContainsFunc(v.points, func(p Seen) bool { return p.more > 0 })
	return v.points, !thinned && len(v.points) <= v.room
}

// recent puts the last points of a key in the order of their steps, and keeps the last point of each step. It holds at
// most 2*room points.
type recent struct {
	room   int
	points []Seen // sorted by step
	given  []Seen // the points that full returned last
	top    int64  // the highest step that was returned; valid if begun
	begun  bool
}

func (r *recent) reset() { r.points, r.begun = r.points[:0], false }

// add adds a point. It returns false if the point is late: its step is not higher than one that was returned.
func (r *recent) add(s Seen) bool {
	if r.begun && s.Step <= r.top {
		return false
	}
	if n := len(r.points); n == 0 || s.Step > r.points[n-1].Step {
		r.points = append(r.points, s)
		return true
	}
	at, found := slices.BinarySearchFunc(r.points, s.Step, func(p Seen, step int64) int { return cmp.Compare(p.Step, step) })
	if found {
		r.points[at] = s
	} else {
		r.points = slices.Insert(r.points, at, s)
	}
	return true
}

// full removes and returns the points with the lowest steps if there are too many points. The points are valid until the
// next call.
func (r *recent) full() []Seen {
	if len(r.points) < 2*r.room {
		return nil
	}
	r.given = append(r.given[:0], r.points[:r.room]...)
	r.points = r.points[:copy(r.points, r.points[r.room:])]
	r.top, r.begun = r.given[r.room-1].Step, true
	return r.given
}

// rest removes and returns all points. They are valid until the next call of add.
func (r *recent) rest() []Seen {
	rest := r.points
	r.points = r.points[:0]
	return rest
}

// Omitted returns the number of points that Thin has removed from a series.
func Omitted(points []Seen) (n int64) {
	for i := range points {
		n += int64(points[i].more)
	}
	return n
}

// Thin reduces points to at most the given number, which must be at least 5, and reuses their memory. It keeps the
// first and the last point and, of each section between them, the lowest, the highest and the last NaN. Each section
// represents about the same number of reported points, including those that an earlier call has removed. Thin returns
// points unchanged if there are not too many.
func Thin(points []Seen, most int) []Seen {
	if len(points) <= most {
		return points
	}
	const kept = 3
	sections := uint64(max(1, (most-2)/kept))
	inner, last := points[1:len(points)-1], points[len(points)-1]
	total := uint64(0)
	for i := range inner {
		total += uint64(inner[i].more) + 1
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

// extremes appends the lowest point, the highest point and the last NaN of a section to out, in their order. Each
// appended point represents an equal share of the reported points of the section; the first one also represents the
// remainder.
func extremes(section []Seen, stands uint64, out []Seen) []Seen {
	low, high, odd := -1, -1, -1
	var least, greatest float64
	for i := range section {
		v := section[i].Value
		switch {
		case math.IsNaN(v):
			odd = i
		case low < 0:
			low, high, least, greatest = i, i, v, v
		case v < least:
			low, least = i, v
		case v > greatest:
			high, greatest = i, v
		}
	}
	kept := [3]int{min(low, high), max(low, high), odd}
	slices.Sort(kept[:])
	n, last := uint64(0), -1
	for _, i := range kept {
		if i != last {
			n, last = n+1, i
		}
	}
	first := len(out)
	last = -1
	for _, i := range kept {
		if i == last {
			continue
		}
		last = i
		share := stands / n
		if len(out) == first {
			share += stands % n
		}
		out = append(out, section[i])
		out[len(out)-1].more = uint32(min(share-1, math.MaxUint32))
	}
	return out
}

// maxLate is the maximum number of late points that are held in memory after they have been sorted; twice as many are
// held before. A page has fewer series than that.
const maxLate = 1 << 17

// latePoints are the points, from one step to another, that came too late to be put in order. Each replaces an earlier
// point of its step, if there is one. If there are too many, the range ends earlier.
type latePoints struct {
	from, to int64
	most     int
	points   []latePoint
}

type latePoint struct {
	key int32
	Seen
}

func compareLate(a, b latePoint) int {
	return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.key, b.key))
}

func (l *latePoints) none() bool { return len(l.points) == 0 && l.to == math.MaxInt64 }

func (l *latePoints) covers(step int64) bool { return step >= l.from && step <= l.to }

func (l *latePoints) add(p latePoint) {
	if !l.covers(p.Step) {
		return
	}
	if l.points = append(l.points, p); len(l.points) >= 2*l.most {
		l.finish()
	}
}

// finish sorts the points and keeps the last one of each step. If there are too many, it drops those with the highest
// steps and ends the range before them.
func (l *latePoints) finish() {
	slices.SortStableFunc(l.points, compareLate)
	kept := l.points[:0]
	for i, p := range l.points {
		if i+1 == len(l.points) || compareLate(p, l.points[i+1]) != 0 {
			kept = append(kept, p)
		}
	}
	l.points = kept
	if len(kept) <= l.most {
		return
	}
	l.to = kept[l.most].Step - 1
	end, _ := slices.BinarySearchFunc(kept, l.to+1, func(p latePoint, step int64) int { return cmp.Compare(p.Step, step) })
	l.points = kept[:end]
}

// replaces reports whether a late point replaces the point of a step.
func (l *latePoints) replaces(key int32, step int64) bool {
	if len(l.points) == 0 {
		return false
	}
	_, found := slices.BinarySearchFunc(l.points, latePoint{key: key, Seen: Seen{Step: step}}, compareLate)
	return found
}

// inOrder passes the visible points of the only plot to visit, in the order of their steps.
func (r *reading) inOrder(ctx context.Context, visit func(Seen)) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	late, err := r.survey(ctx, math.MinInt64)
	for err == nil {
		waiting := late.points
		before := func(step int64) {
			for len(waiting) > 0 && waiting[0].Step < step {
				visit(waiting[0].Seen)
				waiting = waiting[1:]
			}
		}
		err = r.read(ctx, func(*plot, int32, Seen) {}, func(_ *plot, key int32, s Seen) {
			if late.covers(s.Step) && !late.replaces(key, s.Step) {
				before(s.Step)
				visit(s)
			}
		})
		if err != nil {
			return err
		}
		for _, l := range waiting {
			visit(l.Seen)
		}
		if late.to == math.MaxInt64 {
			return nil
		}
		late, err = r.survey(ctx, late.to+1)
	}
	return err
}
