// Package metric owns the metric points of runs, and stores the hardware samples of their machines. It encodes the points of a
// row into one value, decides which points a reader sees, and thins long series for a response.
package metric

import (
	"cmp"
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

// PointSize is the maximum size in bytes of a point in a batch.
const PointSize = 32

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
// Pack. If wanted is not nil and returns false for the keys of all points, Unpack appends nothing and does not decode
// the rest.
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

// take consumes the n bytes of a decoded value. If n is not positive, it marks the reader as failed. It returns the
// factor for the decoded value: 1, or 0 after a failure.
func (r *reader) take(n int) uint64 {
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.data = r.data[n:]
	return 1
}

// entry is a point of a block. The field at is the index of the point among all points of its segment, in the order of
// the reports.
type entry struct {
	Step, Micros int64
	Value        float64
	at           uint32
}

// The number of points of a block, and its maximum if many points have the same step. A piece has about pieceSize points.
const (
	blockSize = 1024
	blockMost = 1 << 16
	pieceSize = 64
)

// blocked divides the points of a key into blocks of about blockSize points, sorted by step and then by report. Points
// with the same step stay together, unless there are more than blockMost of them.
func blocked(points []entry) [][]entry {
	slices.SortFunc(points, func(a, b entry) int { return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.at, b.at)) })
	var blocks [][]entry
	for left := points; len(left) > 0; {
		parts := (len(left) + blockSize - 1) / blockSize
		end := (len(left) + parts - 1) / parts
		for end < len(left) && end < blockMost && left[end].Step == left[end-1].Step {
			end++
		}
		blocks, left = append(blocks, left[:end]), left[end:]
	}
	return blocks
}

// winners appends the last report of each step to into.
func winners(points []entry, into []entry) []entry {
	for i, p := range points {
		if i+1 == len(points) || points[i+1].Step != p.Step {
			into = append(into, p)
		}
	}
	return into
}

// The first byte of an encoded block states how its values are stored: as 8 bytes each, or as 4 bytes each if that loses
// nothing.
const (
	values64 = 1
	values32 = 2
)

// packBlock encodes the points of a block: the number of points, and then the steps, the indexes, the times and the
// values.
func packBlock(points []entry) []byte {
	kind := byte(values32)
	for _, p := range points {
		if math.Float64bits(float64(float32(p.Value))) != math.Float64bits(p.Value) {
			kind = values64
			break
		}
	}
	out := append(make([]byte, 0, 16+12*len(points)), kind)
	out = binary.AppendUvarint(out, uint64(len(points)))
	out = appendColumn(out, len(points), func(i int) int64 { return points[i].Step })
	out = appendColumn(out, len(points), func(i int) int64 { return int64(points[i].at) })
	out = appendColumn(out, len(points), func(i int) int64 { return points[i].Micros })
	for _, p := range points {
		if kind == values32 {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(p.Value)))
		} else {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(p.Value))
		}
	}
	return out
}

// appendColumn encodes n numbers as pairs: a difference from the number before, and how often it is repeated.
func appendColumn(out []byte, n int, at func(i int) int64) []byte {
	last := int64(0)
	for i := 0; i < n; {
		step := at(i) - last
		from := i
		for i < n && at(i)-last == step {
			last = at(i)
			i++
		}
		out = binary.AppendVarint(out, step)
		out = binary.AppendUvarint(out, uint64(i-from-1))
	}
	return out
}

// column decodes the n numbers of appendColumn and passes them to set.
func (r *reader) column(n int, set func(i int, v int64)) {
	last := int64(0)
	for i := 0; i < n && !r.failed; {
		step, times := r.varint(), r.uvarint()
		if times >= uint64(n-i) {
			r.failed = true
			return
		}
		for end := i + int(times); i <= end; i++ {
			last += step
			set(i, last)
		}
	}
}

// unpackBlock decodes the output of packBlock into the memory of into. It returns errBatch if data is not such output.
func unpackBlock(data []byte, into []entry) ([]entry, error) {
	if len(data) == 0 || data[0] != values64 && data[0] != values32 {
		return nil, errBatch
	}
	size := map[byte]int{values64: 8, values32: 4}[data[0]]
	r := reader{data: data[1:]}
	n := r.uvarint()
	if n > uint64(len(data)/size) {
		return nil, errBatch
	}
	points := slices.Grow(into[:0], int(n))[:n]
	r.column(int(n), func(i int, v int64) { points[i].Step = v })
	r.column(int(n), func(i int, v int64) { points[i].at = uint32(v) })
	r.column(int(n), func(i int, v int64) { points[i].Micros = v })
	if r.failed || len(r.data) != int(n)*size {
		return nil, errBatch
	}
	for i := range points {
		if size == 4 {
			points[i].Value = float64(math.Float32frombits(binary.LittleEndian.Uint32(r.data[i*4:])))
		} else {
			points[i].Value = math.Float64frombits(binary.LittleEndian.Uint64(r.data[i*8:]))
		}
	}
	return points, nil
}

// piece summarizes some points of a block that follow each other. The steps of a piece are within an interval whose
// length is a power of two, and which begins at a multiple of its length, so that the piece is usually in one bucket.
type piece struct {
	Stats
	// ordered means that the times are in the order of the steps, so that First and Last are right on both axes.
	ordered bool
}

// pieces summarizes the winners of a block, which must not be empty.
func pieces(points []entry, attempt int32) []piece {
	shift := pieceShift(points[0].Step, points[len(points)-1].Step, len(points))
	var out []piece
	var last int64
	for _, p := range points {
		if len(out) == 0 || p.Step>>shift != last {
			out = append(out, piece{ordered: true})
		}
		last = p.Step >> shift
		at := &out[len(out)-1]
		at.ordered = at.ordered && (at.Count == 0 || p.Micros >= at.Last.Micros)
		at.add(Seen{Step: p.Step, Value: p.Value, Micros: p.Micros, Attempt: attempt}, Steps)
	}
	return out
}

// whole returns the summary of all pieces of a block.
func whole(parts []piece) piece {
	all := parts[0]
	for i := range parts[1:] {
		next := &parts[i+1]
		all.ordered = all.ordered && next.ordered && next.First.Micros >= all.Last.Micros
		all.merge(&next.Stats, Steps)
	}
	return all
}

// packPieces encodes the pieces of a block.
func packPieces(all []piece) []byte {
	out := binary.AppendUvarint(nil, uint64(len(all)))
	var last Seen
	add := func(p Seen) {
		out = binary.AppendVarint(out, p.Step-last.Step)
		out = binary.AppendVarint(out, p.Micros-last.Micros)
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(p.Value))
		last = p
	}
	for i := range all {
		p := &all[i]
		out = append(out, 0)
		if p.ordered {
			out[len(out)-1] = 1
		}
		out = binary.AppendUvarint(out, uint64(p.Count))
		out = binary.AppendUvarint(out, uint64(p.Odd))
		add(p.First)
		add(p.Last)
		if p.Numbers() > 0 {
			add(p.Low)
			add(p.High)
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(p.sum))
		}
	}
	return out
}

// unpackPieces decodes the output of packPieces of a block of an attempt into the memory of into.
func unpackPieces(data []byte, attempt int32, into []piece) ([]piece, error) {
	r := reader{data: data}
	n := r.uvarint()
	if n > uint64(len(data)) {
		return nil, errBatch
	}
	out := into[:0]
	last := Seen{Attempt: attempt}
	next := func() Seen {
		last.Step += r.varint()
		last.Micros += r.varint()
		last.Value = r.float()
		return last
	}
	for range n {
		var p piece
		p.ordered = r.uvarint() == 1
		p.Count, p.Odd = int64(r.uvarint()), int64(r.uvarint())
		p.First, p.Last = next(), next()
		p.FirstStep, p.LastStep = p.First.Step, p.Last.Step
		if p.Numbers() > 0 {
			p.Low, p.High, p.sum = next(), next(), r.float()
		}
		out = append(out, p)
	}
	if r.failed || len(r.data) > 0 {
		return nil, errBatch
	}
	return out, nil
}

// float decodes 8 bytes.
func (r *reader) float() float64 {
	if len(r.data) < 8 {
		r.failed = true
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(r.data))
	r.data = r.data[8:]
	return v
}

// numbers decodes the output of appendColumn.
func (r *reader) numbers(into []int64) {
	data, last := r.data, int64(0)
	for i := 0; i < len(into); {
		step, n := binary.Varint(data)
		times, m := binary.Uvarint(data[max(0, n):])
		if n <= 0 || m <= 0 || times >= uint64(len(into)-i) {
			r.failed = true
			return
		}
		data = data[n+m:]
		for end := i + int(times); i <= end; i++ {
			last += step
			into[i] = last
		}
	}
	r.data = data
}
