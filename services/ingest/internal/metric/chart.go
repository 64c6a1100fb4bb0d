package metric

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Axis is what the window of a chart and its buckets divide.
type Axis int

// The axes of charts. A position on Steps is a step; on Times it is a time in microseconds since 1970.
const (
	Steps Axis = iota
	Times
)

// Window selects the points from From to To, both included.
type Window struct {
	Axis     Axis
	From, To int64
	// Aligned states that the buckets divide the window. Otherwise they divide the range of the points within it.
	Aligned bool
}

// All is the window that contains all points.
func All(axis Axis) Window { return Window{Axis: axis, From: math.MinInt64, To: math.MaxInt64} }

func (a Axis) of(p *Seen) int64 {
	if a == Times {
		return p.Micros
	}
	return p.Step
}

// compare orders points by their positions, and points with the same time by their steps.
func (a Axis) compare(p, q *Seen) int {
	return cmp.Or(cmp.Compare(a.of(p), a.of(q)), cmp.Compare(p.Step, q.Step))
}

// grid divides the positions from low to low+span into n buckets whose widths differ by at most 1. In an aligned grid
// only the first and the last bucket are narrower than the others.
type grid struct {
	low, span, n uint64
	// width is not 0 in an aligned grid. Its buckets are divided at base plus multiples of width. Both are multiples of
	// unit, which is a power of two.
	base, width, unit uint64
}

// newGrid returns a grid of the positions from low to high with the given number of buckets, or with one bucket per
// position if there are fewer positions.
func newGrid(low, high int64, n int) grid {
	g := grid{low: uint64(low), span: uint64(high) - uint64(low), n: uint64(n)}
	if g.span < g.n {
		g.n = g.span + 1
	}
	return g
}

// aligned is the least number of positions per bucket from which steps have an aligned grid.
const aligned = 64

// newAlignedGrid returns a grid whose inner buckets begin at multiples of a power of two, and are at most a third wider
// than those of newGrid. The pieces of blocks and of summaries then rarely belong to two buckets.
func newAlignedGrid(low, high int64, n int) grid {
	g := newGrid(low, high, n)
	wide := g.span / g.n
	if wide < aligned || g.span > math.MaxInt64/2 {
		return g
	}
	unit := uint64(1) << (bits.Len64(wide/4) - 1)
	g.unit, g.base = unit, uint64(low)&^(unit-1)
	g.width = ((uint64(high)-g.base)/g.n/unit + 1) * unit
	g.n = (uint64(high)-g.base)/g.width + 1
	return g
}

// level returns the binary logarithm of the longest intervals that are within the buckets of an aligned grid, if each interval begins
// at a multiple of its length.
func (g grid) level() int16 { return int16(bits.TrailingZeros64(g.base | g.width)) }

// bucket returns the number of the bucket of a position.
func (g grid) bucket(x int64) int {
	if g.width > 0 {
		return int((uint64(x) - g.base) / g.width)
	}
	high, low := bits.Mul64(uint64(x)-g.low, g.n)
	if g.span == math.MaxUint64 {
		return int(high)
	}
	i, _ := bits.Div64(high, low, g.span+1)
	return int(i)
}

// begin returns the lowest position of a bucket.
func (g grid) begin(i int) int64 {
	if g.width > 0 {
		return max(int64(g.low), int64(g.base+uint64(i)*g.width))
	}
	high, low := bits.Mul64(uint64(i), g.span+1)
	if g.span == math.MaxUint64 {
		high, low = uint64(i), 0
	}
	low, carry := bits.Add64(low, g.n-1, 0)
	d, _ := bits.Div64(high+carry, low, g.n)
	return int64(g.low + d)
}

func (g grid) end(i int) int64 {
	if uint64(i)+1 == g.n {
		return int64(g.low + g.span)
	}
	return g.begin(i+1) - 1
}

// Stats summarizes points. The fields other than Count and Odd are only valid if there are points; Low and High only if
// some value is a number.
type Stats struct {
	Count int64
	// Odd is the number of points whose value is NaN or infinite. These take no part in Low, High and Mean.
	Odd int64
	// First and Last are the points with the lowest and the highest position.
	First, Last Seen
	// Low and High are the points with the lowest and the highest value. Of several such points it is the one with the
	// lowest step.
	Low, High           Seen
	FirstStep, LastStep int64

	sum float64 // of the values, times scale
}

// scale keeps the sum of as many as 2^40 values finite. It is a power of two, so that scaling is exact.
const scale = 0x1p-40

// Numbers returns the number of points whose value is a number.
func (s *Stats) Numbers() int64 { return s.Count - s.Odd }

// Mean returns the mean of the values that are numbers.
func (s *Stats) Mean() float64 {
	return min(max(s.sum/float64(s.Numbers())/scale, s.Low.Value), s.High.Value)
}

func (s *Stats) add(p Seen, axis Axis) {
	if s.Count == 0 {
		s.First, s.Last, s.FirstStep, s.LastStep = p, p, p.Step, p.Step
	}
	if axis.compare(&p, &s.First) < 0 {
		s.First = p
	}
	if axis.compare(&p, &s.Last) > 0 {
		s.Last = p
	}
	s.FirstStep, s.LastStep = min(s.FirstStep, p.Step), max(s.LastStep, p.Step)
	s.Count++
	if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
		s.Odd++
		return
	}
	s.sum += p.Value * scale
	one := s.Numbers() == 1
	if one || p.Value < s.Low.Value || p.Value == s.Low.Value && p.Step < s.Low.Step {
		s.Low = p
	}
	if one || p.Value > s.High.Value || p.Value == s.High.Value && p.Step < s.High.Step {
		s.High = p
	}
}

// merge adds other points: at least one.
func (s *Stats) merge(o *Stats, axis Axis) {
	if s.Count == 0 {
		*s = *o
		return
	}
	if axis.compare(&o.First, &s.First) < 0 {
		s.First = o.First
	}
	if axis.compare(&o.Last, &s.Last) > 0 {
		s.Last = o.Last
	}
	s.FirstStep, s.LastStep = min(s.FirstStep, o.FirstStep), max(s.LastStep, o.LastStep)
	if o.Numbers() > 0 {
		one := s.Numbers() == 0
		if one || o.Low.Value < s.Low.Value || o.Low.Value == s.Low.Value && o.Low.Step < s.Low.Step {
			s.Low = o.Low
		}
		if one || o.High.Value > s.High.Value || o.High.Value == s.High.Value && o.High.Step < s.High.Step {
			s.High = o.High
		}
	}
	s.Count, s.Odd, s.sum = s.Count+o.Count, s.Odd+o.Odd, s.sum+o.sum
}

// Bucket summarizes the points of a part of a window. Of the points in its Stats, only the values of Last, Low and High
// are valid.
type Bucket struct {
	// From and To are the lowest and the highest position of the bucket.
	From, To int64
	Stats
}

// Chart is a summary of the points of a key within a window.
type Chart struct {
	Key  string
	Rank int32 // of the process that reported the points
	Stats
	// Points are the points, sorted by position, if there are not too many.
	Points []Seen
	// Buckets are the buckets that have points, in order, if there are too many points.
	Buckets []Bucket
}

// plot makes the chart of a key. Its memory depends on the maximum number of buckets only.
type plot struct {
	attempts

	window Window
	most   int // maximum number of points and of buckets; 0 if only the Stats are wanted
	// low and high are the positions between which the points of the window are.
	low, high int64
	recent    recent
	blocks    blockRange

	chart   Chart
	grid    grid
	buckets []Bucket // empty unless there are more than most points
}

func newPlot(of Series, w Window, most, room int) *plot {
	return &plot{window: w, most: most, recent: recent{room: room}, low: math.MaxInt64, high: math.MinInt64, blocks: newBlockRange(), chart: Chart{Key: of.Key, Rank: of.Rank}}
}

// survey measures a point. If only the Stats are wanted, it adds the point at once: usually no step is reported twice, so
// that the rows need not be read again.
func (p *plot) survey(s Seen) {
	if p.most == 0 {
		p.add(s)
		return
	}
	p.measure(s)
}

// measure extends the range of positions to the position of a point of the window.
func (p *plot) measure(s Seen) {
	if x := p.window.Axis.of(&s); x >= p.window.From && x <= p.window.To {
		p.low, p.high = min(p.low, x), max(p.high, x)
	}
}

// measureBlocks measures the points of clean blocks. If there are too many points for the chart, it makes the buckets at once.
func (p *plot) measureBlocks() {
	p.low, p.high = min(p.low, p.blocks.low), max(p.high, p.blocks.high)
	if p.most > 0 && p.blocks.points > int64(p.most) {
		p.divide()
	}
}

// add adds a point that readers see. measure must have been called for all points before.
func (p *plot) add(s Seen) {
	if x := p.window.Axis.of(&s); x < p.window.From || x > p.window.To {
		return
	}
	p.chart.add(s, p.window.Axis)
	switch {
	case p.most == 0:
	case p.buckets != nil:
		p.bucket(s)
	case len(p.chart.Points) < p.most:
		p.chart.Points = append(p.chart.Points, s)
	default:
		p.divide()
		p.bucket(s)
	}
}

// divide makes the buckets and moves the points into them.
func (p *plot) divide() {
	switch {
	case p.window.Aligned:
		p.grid = newGrid(p.window.From, p.window.To, p.most)
	case p.window.Axis == Steps:
		p.grid = newAlignedGrid(p.low, p.high, p.most)
	default:
		p.grid = newGrid(p.low, p.high, p.most)
	}
	p.buckets = make([]Bucket, p.grid.n)
	for _, s := range p.chart.Points {
		p.bucket(s)
	}
	p.chart.Points = nil
}

// bucket adds a point to its bucket. If rows are deleted between two readings, the point may be outside of the range.
func (p *plot) bucket(s Seen) {
	x := min(max(p.window.Axis.of(&s), p.low), p.high)
	p.buckets[p.grid.bucket(x)].add(s, p.window.Axis)
}

// addColumns adds the points of a clean block, which is within the window, to the buckets.
func (p *plot) addColumns(c *blockPoints) {
	for i := 0; i < len(c.steps); {
		at := p.grid.bucket(c.steps[i])
		end := p.grid.end(at)
		b := brief{first: c.steps[i], low: math.Inf(1), high: math.Inf(-1)}
		from := i
		for ; i < len(c.steps) && c.steps[i] <= end; i++ {
			v := c.values[i]
			if v-v != 0 { // NaN or infinite
				b.odd++
				continue
			}
			b.sum += v * scale
			b.low, b.high = min(b.low, v), max(b.high, v)
		}
		b.count, b.last, b.end = int64(i-from), c.steps[i-1], c.values[i-1]
		p.buckets[at].mergeBrief(&b)
	}
}

// done returns the chart.
func (p *plot) done() Chart {
	slices.SortFunc(p.chart.Points, func(a, b Seen) int { return p.window.Axis.compare(&a, &b) })
	found := 0
	for i := range p.buckets {
		if b := &p.buckets[i]; b.Count > 0 {
			b.From, b.To = p.grid.begin(i), p.grid.end(i)
			if found < i {
				p.buckets[found] = *b
			}
			found++
		}
	}
	p.chart.Buckets, p.buckets = p.buckets[:found:found], nil
	return p.chart
}

// Band summarizes the points of several runs from a position to another one.
type Band struct {
	From, To  int64
	Runs      int32
	Mean      float64 // of the means of the runs
	Low, High float64
}

// Bands summarizes charts of the same aligned window, one per run, in the n buckets of the window. Only buckets with
// numbers are returned.
func Bands(charts []Chart, w Window, n int) []Band {
	g := newGrid(w.From, w.To, n)
	bands := make([]Band, g.n)
	for i := range charts {
		of := map[int]*Stats{}
		for _, p := range charts[i].Points {
			at := g.bucket(w.Axis.of(&p))
			if of[at] == nil {
				of[at] = &Stats{}
			}
			of[at].add(p, w.Axis)
		}
		for j := range charts[i].Buckets {
			b := &charts[i].Buckets[j]
			of[g.bucket(b.From)] = &b.Stats
		}
		for at, s := range of {
			if s.Numbers() > 0 {
				bands[at].add(s)
			}
		}
	}
	var found []Band
	for i, b := range bands {
		if b.Runs > 0 {
			b.From, b.To = g.begin(i), g.end(i)
			found = append(found, b)
		}
	}
	return found
}

func (b *Band) add(s *Stats) {
	if b.Runs++; b.Runs == 1 {
		b.Mean, b.Low, b.High = s.Mean(), s.Low.Value, s.High.Value
		return
	}
	n := float64(b.Runs)
	b.Mean = b.Mean*((n-1)/n) + s.Mean()/n
	b.Low, b.High = min(b.Low, s.Low.Value), max(b.High, s.High.Value)
}
