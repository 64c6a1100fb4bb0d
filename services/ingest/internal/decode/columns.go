package decode

import (
	"slices"
	"time"
)

// Bounds of a metrics request. MaxRunID and MaxRank apply to all other requests too.
const (
	MaxPoints = 10_000
	MaxKey    = 256 // characters
	MaxRunID  = 64
	MaxRank   = 1 << 24
)

// Columns holds the points of one metrics request, one slice per column. Reusing it for the next request avoids an
// allocation per point.
type Columns struct {
	RunID string
	Rank  *int32
	// Names are the distinct keys, in the order in which they first occur. The elements of Key are indexes into Names.
	Names []string
	Key   []uint32
	Step  []int64
	Value []float64
	// Micros are the times of the points in microseconds since 1970-01-01T00:00:00Z.
	Micros []int64

	index map[string]uint32
}

// Len returns the number of points.
func (c *Columns) Len() int { return len(c.Key) }

// Keep removes every point for whose key the given function returns false.
func (c *Columns) Keep(keep func(key string) bool) {
	n := 0
	allowed, names, ids := make([]bool, len(c.Names)), c.Names[:0:0], make([]uint32, len(c.Names))
	for i, name := range c.Names {
		if allowed[i] = keep(name); allowed[i] {
			ids[i], names = uint32(len(names)), append(names, name)
		}
	}
	for i, key := range c.Key {
		if allowed[key] {
			c.Key[n], c.Step[n], c.Value[n], c.Micros[n] = ids[key], c.Step[i], c.Value[i], c.Micros[i]
			n++
		}
	}
	c.Names, c.Key, c.Step, c.Value, c.Micros = names, c.Key[:n], c.Step[:n], c.Value[:n], c.Micros[:n]
}

// Reset removes the points, but keeps the allocated memory for reuse.
func (c *Columns) Reset() {
	c.RunID, c.Rank = "", nil
	c.Names, c.Key, c.Step, c.Value, c.Micros = c.Names[:0], c.Key[:0], c.Step[:0], c.Value[:0], c.Micros[:0]
	if c.index == nil {
		c.index = make(map[string]uint32)
	}
	clear(c.index)
}

// Newest returns the time of the newest point, or the zero time if there is none.
func (c *Columns) Newest() time.Time {
	if len(c.Micros) == 0 {
		return time.Time{}
	}
	return time.UnixMicro(slices.Max(c.Micros))
}

func (c *Columns) add(key uint32, step int64, value float64, micros int64) {
	c.Key, c.Step = append(c.Key, key), append(c.Step, step)
	c.Value, c.Micros = append(c.Value, value), append(c.Micros, micros)
}

func (c *Columns) intern(key []byte) uint32 {
	if i, ok := c.index[string(key)]; ok {
		return i
	}
	i := uint32(len(c.Names))
	c.Names = append(c.Names, string(key))
	c.index[c.Names[i]] = i
	return i
}

// Metrics replaces the points in the given Columns by those of a metrics request. A scanner reads the common form of a
// body without an allocation per point. For any other body, a Reader starts again at the beginning, so results and
// faults do not depend on the scanner.
func Metrics(data []byte, into *Columns) error {
	into.Reset()
	if fast(data, into) {
		return nil
	}
	into.Reset()
	return Body(data, func(r *Reader) { points(r, into) })
}

func points(r *Reader, into *Columns) {
	r.Object(Fields{
		"run_id": func() { into.RunID = r.RunID() },
		"rank":   func() { into.Rank = r.Rank() },
		"points": func() { r.List(MaxPoints, func(int) { point(r, into) }) },
	}, "run_id", "points")
}

func point(r *Reader, into *Columns) {
	var (
		key    string
		step   int64
		value  float64
		micros int64
	)
	r.Object(Fields{
		"key":   func() { key = r.Text(1, MaxKey) },
		"step":  func() { step = r.Int() },
		"value": func() { value = r.Float() },
		"ts":    func() { micros = r.Time().UnixMicro() },
	}, "key", "step", "value", "ts")
	if !r.broken {
		into.add(into.intern([]byte(key)), step, value, micros)
	}
}

// RunID reads the id of a run.
func (r *Reader) RunID() string { return r.Text(1, MaxRunID) }

// Rank reads the optional rank of the reporting process. For null it returns nil.
func (r *Reader) Rank() *int32 {
	return Optional(r, func() int32 { return int32(r.IntIn(0, MaxRank)) })
}
