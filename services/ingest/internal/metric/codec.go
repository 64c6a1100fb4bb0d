// Package metric owns the metric points of runs and the hardware samples of their machines. It encodes the points of a
// row into one value, decides which points a reader sees, and thins long series for a response.
package metric

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// Point is one value of a key.
type Point struct {
	Key    int32 // id within the run
	Step   int64
	Value  float64
	Micros int64 // time in microseconds since 1970-01-01T00:00:00Z
}

// version is the first byte of every encoded batch.
const version = 1

var errBatch = errors.New("a stored batch of points is corrupt")

// Pack encodes points: the version, the number of points, and then column by column the keys, the differences of steps,
// the differences of times and the values.
func Pack(points []Point) []byte {
	out := make([]byte, 0, 1+binary.MaxVarintLen64+len(points)*12)
	out = append(out, version)
	out = binary.AppendUvarint(out, uint64(len(points)))
	for _, p := range points {
		out = binary.AppendUvarint(out, uint64(p.Key))
	}
	var last int64
	for _, p := range points {
		out = binary.AppendVarint(out, p.Step-last)
		last = p.Step
	}
	last = 0
	for _, p := range points {
		out = binary.AppendVarint(out, p.Micros-last)
		last = p.Micros
	}
	for _, p := range points {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(p.Value))
	}
	return out
}

// Unpack decodes the output of Pack and appends the points to into. It returns errBatch if data is not the output of
// Pack. If wanted is not nil and returns false for the keys of all points, Unpack appends nothing and does not decode the
// rest.
func Unpack(data []byte, into []Point, wanted func(key int32) bool) ([]Point, error) {
	if len(data) == 0 || data[0] != version {
		return nil, errBatch
	}
	r := reader{data: data[1:]}
	n := r.uvarint()
	if n > uint64(len(data)) {
		return nil, errBatch
	}
	from := len(into)
	into = slices.Grow(into, int(n))[:from+int(n)]
	points := into[from:]
	found := wanted == nil
	for i := range points {
		points[i].Key = int32(r.uvarint())
		found = found || wanted(points[i].Key)
	}
	if !found && !r.failed {
		return into[:from], nil
	}
	var last int64
	for i := range points {
		last += r.varint()
		points[i].Step = last
	}
	last = 0
	for i := range points {
		last += r.varint()
		points[i].Micros = last
	}
	if r.failed || uint64(len(r.data)) != n*8 {
		return nil, errBatch
	}
	for i := range points {
		points[i].Value = math.Float64frombits(binary.LittleEndian.Uint64(r.data[i*8:]))
	}
	return into, nil
}

type reader struct {
	data   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	return v * r.take(n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.data)
	return v * int64(r.take(n))
}

// take skips n bytes. If n is not positive, it marks the reader as failed. It returns the factor for the decoded value:
// 1, or 0 after a failure.
func (r *reader) take(n int) uint64 {
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.data = r.data[n:]
	return 1
}
