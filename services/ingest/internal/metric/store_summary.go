package metric

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// A summary stands for the blocks of a key in consecutive segments, so that a chart of many blocks reads few rows. It has
// briefs of intervals of steps at several levels. A chart reads the highest level whose intervals are within its buckets.

// brief summarizes the points of an interval of steps, as far as buckets need it. The fields low, high and sum are only
// valid if some value is a number.
type brief struct {
	first, last    int64 // steps
	count, odd     int64
	end            float64 // the value of the last point
	low, high, sum float64
}

func briefOf(s *Stats) brief {
	return brief{s.First.Step, s.Last.Step, s.Count, s.Odd, s.Last.Value, s.Low.Value, s.High.Value, s.sum}
}

// merge adds an interval with higher steps.
func (b *brief) merge(o *brief) {
	switch {
	case o.count == o.odd:
	case b.count == b.odd:
		b.low, b.high, b.sum = o.low, o.high, o.sum
	default:
		b.low, b.high, b.sum = min(b.low, o.low), max(b.high, o.high), b.sum+o.sum
	}
	b.last, b.end, b.count, b.odd = o.last, o.end, b.count+o.count, b.odd+o.odd
}

// mergeBrief adds other points to the Stats of a bucket.
func (s *Stats) mergeBrief(b *brief) {
	if s.Count == 0 || b.first < s.FirstStep {
		s.First, s.FirstStep = Seen{Step: b.first}, b.first
	}
	if s.Count == 0 || b.last > s.LastStep {
		s.Last, s.LastStep = Seen{Step: b.last, Value: b.end}, b.last
	}
	if b.count > b.odd {
		if s.Numbers() == 0 || b.low < s.Low.Value {
			s.Low = Seen{Step: b.first, Value: b.low}
		}
		if s.Numbers() == 0 || b.high > s.High.Value {
			s.High = Seen{Step: b.first, Value: b.high}
		}
		s.sum += b.sum
	}
	s.Count, s.Odd = s.Count+b.count, s.Odd+b.odd
}

// raise merges the briefs that are in the same interval of a level.
func raise(all []brief, level int16) []brief {
	var out []brief
	for i := range all {
		if n := len(out); n > 0 && out[n-1].last>>level == all[i].first>>level {
			out[n-1].merge(&all[i])
			continue
		}
		out = append(out, all[i])
	}
	return out
}

// packBriefs encodes briefs, whose values are stored as 4 bytes each if that loses nothing.
func packBriefs(all []brief) []byte {
	kind := byte(values32)
	for i := range all {
		if b := &all[i]; !narrow(b.end) || b.count > b.odd && !(narrow(b.low) && narrow(b.high)) {
			kind = values64
			break
		}
	}
	out := binary.AppendUvarint([]byte{kind}, uint64(len(all)))
	value := func(v float64) {
		if kind == values32 {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
		} else {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
		}
	}
	last := int64(0)
	for i := range all {
		b := &all[i]
		out = binary.AppendVarint(out, b.first-last)
		out = binary.AppendUvarint(out, uint64(b.last)-uint64(b.first))
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(b.count)), uint64(b.odd))
		if value(b.end); b.count > b.odd {
			value(b.low)
			value(b.high)
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(b.sum))
		}
		last = b.last
	}
	return out
}

func narrow(v float64) bool { return math.Float64bits(float64(float32(v))) == math.Float64bits(v) }

// eachBrief decodes the output of packBriefs and passes the briefs to visit.
func eachBrief(data []byte, visit func(b *brief)) error {
	if len(data) == 0 || data[0] != values64 && data[0] != values32 {
		return errBatch
	}
	r := reader{data: data[1:]}
	narrow := data[0] == values32
	n := r.uvarint()
	var b brief
	for ; n > 0 && !r.failed; n-- {
		b.first = b.last + r.varint()
		b.last = b.first + int64(r.uvarint())
		b.count, b.odd = int64(r.uvarint()), int64(r.uvarint())
		if b.end = r.value(narrow); b.count > b.odd {
			b.low, b.high, b.sum = r.value(narrow), r.value(narrow), r.float()
		}
		if !r.failed {
			visit(&b)
		}
	}
	if r.failed || len(r.data) > 0 {
		return errBatch
	}
	return nil
}

// value decodes 4 bytes, or 8 bytes unless narrow.
func (r *reader) value(narrow bool) float64 {
	if !narrow {
		return r.float()
	}
	if len(r.data) < 4 {
		r.failed = true
		return 0
	}
	v := math.Float32frombits(binary.LittleEndian.Uint32(r.data))
	r.data = r.data[4:]
	return float64(v)
}

// pieceShift returns the binary logarithm of the length of the intervals of a block's pieces.
func pieceShift(low, high int64, n int) int {
	span := uint64(high) - uint64(low)
	return min(63, bits.Len64(span/uint64(n)+1)+bits.Len(pieceSize)-2)
}

const headColumns = `b.first_seq, b.key, b.part, b.attempt, b.low_step, b.high_step, b.low_time, b.high_time, b.points, b.whole`

// coveredSQL is the statement that unfold reads the blocks of summaries with.
const coveredSQL = `SELECT ` + headColumns + ` FROM unnest($2::int[], $5::bigint[], $6::bigint[]) i(k, f, l)
	JOIN metric_block b ON b.run_id = $1 AND b.key = i.k AND b.first_seq BETWEEN i.f AND i.l AND b.high_step >= $3 AND b.low_step <= $4`

// unfold returns the blocks of summaries.
func (r *reading) unfold(ctx context.Context, all []head, into []head) ([]head, error) {
	if len(all) == 0 {
		return into, nil
	}
	keys, firsts, lasts := make([]int32, len(all)), make([]int64, len(all)), make([]int64, len(all))
	for i := range all {
		keys[i], firsts[i], lasts[i] = all[i].key, all[i].first, all[i].last
	}
	err := r.heads(ctx, func(h head) { into = append(into, h) }, coveredSQL, r.runID, keys, r.from, r.to, firsts, lasts)
	return into, err
}

// sortSummaries is like sort, but uses summaries instead of their blocks where no other point can replace theirs. It
// reports whether it could.
func (r *reading) sortSummaries(ctx context.Context) (*sorting, error) {
	if err := r.fetchUnits(ctx); err != nil {
		return nil, err
	}
	units, folded := r.units.loose, []head(nil)
	for _, h := range r.units.summaries {
		if h.attempt == 0 {
			folded = append(folded, h)
		} else {
			units = append(units, h)
		}
	}
	for {
		var err error
		if units, err = r.unfold(ctx, folded, units); err != nil || len(units) > r.store.clean {
			return nil, err
		}
		slices.SortFunc(units, func(a, b head) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.lowStep, b.lowStep)) })
		s := &sorting{plots: r.plots, most: r.store.clean}
		r.plots.each(func(p *plot) { p.blocks.clear() })
		for _, h := range units {
			s.add(h)
		}
		if s.close(); len(s.folded) == 0 {
			return s, nil
		}
		folded = s.folded
		units = slices.DeleteFunc(units, func(h head) bool {
			return h.super && slices.ContainsFunc(folded, func(f head) bool { return f.blockID == h.blockID })
		})
	}
}

// level returns the level of a clean summary whose intervals are within the plot's buckets.
func (p *plot) level(h *head) (level int16, ok bool) {
	if p.buckets == nil || p.grid.width == 0 {
		return 0, false
	}
	level = min(h.most, p.grid.level())
	return level, level >= h.least
}

// addLevels adds clean summaries at the given levels to the buckets of their plots.
func (r *reading) addLevels(ctx context.Context, all []head, levels []int16) error {
	if len(all) == 0 {
		return nil
	}
	keys, firsts := make([]int32, len(all)), make([]int64, len(all))
	for i := range all {
		keys[i], firsts[i] = all[i].key, all[i].first
	}
	rows, err := r.db.Query(ctx, `SELECT s.key, s.data FROM unnest($2::int[], $3::bigint[], $4::int[]) i(k, f, l)
		JOIN metric_summary s ON s.run_id = $1 AND s.level = i.l AND s.key = i.k AND s.first_seq = i.f`, r.runID, keys, firsts, levels)
	if err != nil {
		return fmt.Errorf("read the levels of summaries: %w", err)
	}
	var key int32
	var data pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&key, &data}, func() error {
		p := r.plots[key]
		return eachBrief(data, func(b *brief) { p.buckets[p.grid.bucket(b.first)].mergeBrief(b) })
	})
	if err != nil {
		return fmt.Errorf("read the levels of summaries: %w", err)
	}
	return nil
}

// opened are the clean blocks of a reading that are not added as a whole, by how they are added.
type opened struct {
	divided []blockID // by their pieces
	cut     []blockID // by their pieces, and by the points of the others
	points  []head    // by their points
	folded  []head    // by the blocks of the summary
	levels  []int16   // by a level of the summary
	supers  []head
	part    []piece
}

// add adds a clean block as a whole, or records how to add it.
func (o *opened) add(r *reading, h *head) (err error) {
	p := r.plots[h.key]
	if o.part, err = unpackPieces(h.whole, h.attempt, o.part); err != nil {
		return err
	}
	level, ok := p.level(h)
	switch {
	case r.many || p.addPieces(o.part):
	case h.super && ok:
		p.chart.merge(&o.part[0].Stats, Steps)
		o.supers, o.levels = append(o.supers, *h), append(o.levels, level)
	case h.super:
		o.folded = append(o.folded, *h)
	case p.dense():
		o.divided = append(o.divided, h.blockID)
	case p.buckets != nil && p.window.Axis == Steps && p.window.place(h.lowStep, h.highStep) == inside:
		p.chart.merge(&o.part[0].Stats, Steps)
		o.points = append(o.points, *h)
	default:
		o.cut = append(o.cut, h.blockID)
	}
	return nil
}

// summarize adds the clean blocks to their plots: as a whole, by their pieces, or by their points.
func (r *reading) summarize(ctx context.Context) error {
	if !r.blocks {
		return nil
	}
	o := &opened{}
	for i := range r.clean {
		if err := o.add(r, &r.clean[i]); err != nil {
			return err
		}
	}
	blocks, err := r.unfold(ctx, o.folded, nil)
	if err != nil {
		return err
	}
	for i := range blocks {
		if err := o.add(r, &blocks[i]); err != nil {
			return err
		}
	}
	less, err := r.divide(ctx, o.divided)
	if err != nil {
		return err
	}
	if err := r.open(ctx, less, (*plot).addCut); err != nil {
		return err
	}
	if err := r.addLevels(ctx, o.supers, o.levels); err != nil {
		return err
	}
	r.pending = o.points
	return r.open(ctx, o.cut, func(p *plot, attempt int32, points []entry, parts []piece) {
		p.addPieces(parts)
		p.addCut(attempt, points, parts)
	})
}

// addPending adds the points of clean blocks to the buckets of the plots.
func addPending(ctx context.Context, db pg.Querier, all []*reading) error {
	var of []int32
	var runs []string
	var ids []blockID
	for n, r := range all {
		for i := range r.pending {
			of, runs, ids = append(of, int32(n)), append(runs, r.runID), append(ids, r.pending[i].blockID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.Query(ctx, pointsSQL, append([]any{of, runs}, columnsOf(ids)...)...)
	if err != nil {
		return fmt.Errorf("read the points of blocks: %w", err)
	}
	var n, key int32
	var data pgtype.DriverBytes
	var c blockPoints
	_, err = pgx.ForEachRow(rows, []any{&n, &key, &data}, func() error {
		err := c.unpack(data, false)
		if err == nil {
			all[n].plots[key].addColumns(&c)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the points of blocks: %w", err)
	}
	return nil
}

const pointsSQL = `SELECT i.n, b.key, b.data FROM unnest($1::int[], $2::text[], $3::bigint[], $4::int[], $5::int[]) i(n, r, f, k, p)
	JOIN metric_block b ON b.run_id = i.r AND b.first_seq = i.f AND b.key = i.k AND b.part = i.p`
