package metric

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// A chart reads a block in one of three ways. The points of a block that is hidden are not read. If no other point of the
// key can replace a point of the block, its pieces are used, and only the points of pieces that are partly in a window or
// a bucket are read: such a block is clean. The points of other blocks are read before the rows, like rows.

// blockID identifies a block of a run.
type blockID struct {
	first     int64
	key, part int32
}

func compareID(a, b blockID) int {
	return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.key, b.key), cmp.Compare(a.part, b.part))
}

// head is a block without its pieces and points, or a summary of blocks.
type head struct {
	blockID

	attempt           int32
	lowStep, highStep int64
	lowTime, highTime int64
	points            int64
	whole             []byte

	super       bool  // it is a summary
	last        int64 // the number of its last segment
	least, most int16 // its levels
}

// blockRange describes the blocks of a plot.
type blockRange struct {
	// rowLow and rowHigh are the lowest and the highest step of the visible points in rows.
	rowLow, rowHigh int64
	// low and high are the positions between which the points of clean blocks are, and points is their number.
	low, high, points int64
	// expand means that the points of clean blocks are added one by one, because there are few.
	expand bool
}

func newBlockRange() blockRange {
	return blockRange{rowLow: math.MaxInt64, rowHigh: math.MinInt64, low: math.MaxInt64, high: math.MinInt64}
}

// clear forgets the blocks.
func (b *blockRange) clear() {
	low, high := b.rowLow, b.rowHigh
	*b = newBlockRange()
	b.rowLow, b.rowHigh = low, high
}

// where is how a block or a piece is read.
type where int

const (
	outside where = iota
	inside
	across
)

// place returns whether the positions from low to high are within the window.
func (w Window) place(low, high int64) where {
	switch {
	case high < w.From || low > w.To:
		return outside
	case low >= w.From && high <= w.To:
		return inside
	}
	return across
}

// span returns the positions of the points of the block.
func (h *head) span(axis Axis) (low, high int64) {
	if axis == Times {
		return h.lowTime, h.highTime
	}
	return h.lowStep, h.highStep
}

// sorting finds the clean blocks of one plot after another.
type sorting struct {
	plots plots
	// group holds blocks of one key whose steps overlap, up to the step high.
	group []head
	high  int64
	dirty []blockID
	cut   []blockID
	most  int // maximum number of clean blocks
	clean []head
	many  bool // clean is not complete
	// folded holds the summaries whose blocks have to be sorted instead.
	folded []head
}

// maxClean is the maximum number of clean blocks of a page that are held in memory. If there are more, they are read again.
const maxClean = 1 << 15

// add adds a block. The blocks must be sorted by key and then by their lowest steps.
func (s *sorting) add(h head) {
	p := s.plots[h.key]
	if p.hidden(h.attempt, h.lowStep) {
		return
	}
	visible := p.visible(h.attempt, h.highStep)
	if len(s.group) > 0 && (s.group[0].key != h.key || h.lowStep > s.high) {
		s.close()
	}
	if len(s.group) == 0 || visible > s.high {
		s.high = visible
	}
	s.group = append(s.group, h)
}

// close ends a group. A block is clean if it is alone in its group, has no hidden points and no steps that rows have.
func (s *sorting) close() {
	defer func() { s.group = s.group[:0] }()
	if len(s.group) == 0 {
		return
	}
	h := &s.group[0]
	p := s.plots[h.key]
	b := &p.blocks
	if len(s.group) > 1 || s.high < h.highStep || h.lowStep <= b.rowHigh && s.high >= b.rowLow {
		for i := range s.group {
			if s.group[i].super {
				s.folded = append(s.folded, s.group[i])
			} else {
				s.dirty = append(s.dirty, s.group[i].blockID)
			}
		}
		return
	}
	low, high := h.span(p.window.Axis)
	at := p.window.place(low, high)
	if h.super && at == across {
		s.folded = append(s.folded, *h)
		return
	}
	if s.many = s.many || len(s.clean) >= s.most; !s.many && at != outside {
		s.clean = append(s.clean, *h)
	}
	switch at {
	case inside:
		b.low, b.high, b.points = min(b.low, low), max(b.high, high), b.points+h.points
	case across:
		s.cut = append(s.cut, h.blockID)
	case outside:
	}
}

const headsSQL = `SELECT ` + headColumns + ` FROM metric_block b
	WHERE b.run_id = $1 AND b.key = ANY($2) AND b.high_step >= $3 AND b.low_step <= $4 ORDER BY b.key, b.low_step`

// heads passes the blocks of a statement to visit.
func (r *reading) heads(ctx context.Context, visit func(h head), sql string, args ...any) error {
	rows, err := r.db.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("read the blocks of metrics: %w", err)
	}
	if err := eachHead(rows, visit); err != nil {
		return fmt.Errorf("read the blocks of metrics: %w", err)
	}
	return nil
}

// eachHead passes the blocks of rows with the headColumns to visit.
func eachHead(rows pgx.Rows, visit func(h head)) error {
	var h head
	into := []any{&h.first, &h.key, &h.part, &h.attempt, &h.lowStep, &h.highStep, &h.lowTime, &h.highTime, &h.points, &h.whole}
	_, err := pgx.ForEachRow(rows, into, func() error {
		visit(h)
		return nil
	})
	return err
}

// sortBlocks is sort without summaries.
func (r *reading) sortBlocks(ctx context.Context) (*sorting, error) {
	r.folded = false
	r.plots.each(func(p *plot) { p.blocks.clear() })
	s := &sorting{plots: r.plots, most: r.store.clean}
	if r.units != nil && len(r.units.summaries) == 0 && len(r.units.loose) <= s.most {
		r.fetched, r.unsorted = true, r.units.loose // these are all blocks
	}
	if !r.fetched {
		err := r.heads(ctx, s.add, headsSQL, r.runID, r.keys, r.from, r.to)
		s.close()
		return s, err
	}
	for _, h := range r.unsorted {
		s.add(h)
	}
	s.close()
	return s, nil
}

// sort finds the blocks that are clean, and measures their points.
func (r *reading) sort(ctx context.Context) error {
	var s *sorting
	var err error
	if r.folded {
		if s, err = r.sortSummaries(ctx); err != nil {
			return err
		}
	}
	if s == nil {
		if s, err = r.sortBlocks(ctx); err != nil {
			return err
		}
	}
	r.dirty, r.clean, r.many = s.dirty, s.clean, s.many
	r.units, r.unsorted = nil, nil // the memory can be used again
	slices.SortFunc(r.dirty, compareID)
	return r.open(ctx, s.cut, func(p *plot, _ int32, points []entry, _ []piece) {
		b := &p.blocks
		for _, e := range points {
			if x := p.window.Axis.of(&Seen{Step: e.Step, Micros: e.Micros}); p.window.place(x, x) == inside {
				b.low, b.high, b.points = min(b.low, x), max(b.high, x), b.points+1
			}
		}
	})
}

const openSQL = `SELECT b.key, b.attempt, b.pieces, b.data FROM unnest($2::bigint[], $3::int[], $4::int[]) i(f, k, p)
	JOIN metric_block b ON b.run_id = $1 AND b.first_seq = i.f AND b.key = i.k AND b.part = i.p`

// open passes the last report of each step of blocks to visit, and the pieces.
func (r *reading) open(ctx context.Context, ids []blockID, visit func(p *plot, attempt int32, points []entry, pieces []piece)) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.db.Query(ctx, openSQL, append([]any{r.runID}, columnsOf(ids)...)...)
	if err != nil {
		return fmt.Errorf("read blocks of metrics: %w", err)
	}
	var key, attempt int32
	var packed, data pgtype.DriverBytes
	var all, last []entry
	var parts []piece
	_, err = pgx.ForEachRow(rows, []any{&key, &attempt, &packed, &data}, func() error {
		if all, err = unpackBlock(data, all); err != nil {
			return err
		}
		if parts, err = unpackPieces(packed, attempt, parts); err != nil {
			return err
		}
		last = winners(all, last[:0])
		visit(r.plots[key], attempt, last, parts)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read blocks of metrics: %w", err)
	}
	return nil
}

// columnsOf returns ids as arguments of a statement.
func columnsOf(ids []blockID) []any {
	firsts, keys, parts := make([]int64, len(ids)), make([]int32, len(ids)), make([]int32, len(ids))
	for i, id := range ids {
		firsts[i], keys[i], parts[i] = id.first, id.key, id.part
	}
	return []any{firsts, keys, parts}
}

// dense reports whether a bucket has so many points that most pieces are in one bucket.
func (p *plot) dense() bool {
	return !p.blocks.expand && p.blocks.points >= int64(p.most)*pieceSize
}

// The statements that divide reads pieces with: those of all blocks of some keys, or of the blocks with the given ids.
const (
	piecesSQL = `SELECT first_seq, key, part, attempt, low_step, low_time, high_time, pieces FROM metric_block
		WHERE run_id = $1 AND key = ANY($2) AND high_step >= $3 AND low_step <= $4`
	somePiecesSQL = `SELECT b.first_seq, b.key, b.part, b.attempt, b.low_step, b.low_time, b.high_time, b.pieces
		FROM unnest($2::bigint[], $3::int[], $4::int[]) i(f, k, p)
		JOIN metric_block b ON b.run_id = $1 AND b.first_seq = i.f AND b.key = i.k AND b.part = i.p`
)

// divide adds the pieces of the given clean blocks, or of all clean blocks if there are many. It returns the blocks with pieces
// that it has not added.
func (r *reading) divide(ctx context.Context, ids []blockID) (cut []blockID, err error) {
	sql, args := somePiecesSQL, append([]any{r.runID}, columnsOf(ids)...)
	all := r.many || !r.folded && 4*len(ids) > len(r.clean)
	switch {
	case all:
		sql, args = piecesSQL, []any{r.runID, r.keys, r.from, r.to}
		slices.SortFunc(ids, compareID)
	case len(ids) == 0:
		return nil, nil
	}
	has := func(list []blockID, id blockID) bool {
		_, found := slices.BinarySearchFunc(list, id, compareID)
		return found
	}
	rows, err := r.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read the summaries of metrics: %w", err)
	}
	var h head
	var packed pgtype.DriverBytes
	var parts []piece
	_, err = pgx.ForEachRow(rows, []any{&h.first, &h.key, &h.part, &h.attempt, &h.lowStep, &h.lowTime, &h.highTime, &packed}, func() error {
		p := r.plots[h.key]
		switch {
		case r.many && (has(r.dirty, h.blockID) || p.hidden(h.attempt, h.lowStep)):
			return nil
		case r.many && p.window.Axis == Times && p.window.place(h.lowTime, h.highTime) == outside:
			return nil
		case !r.many && all && !has(ids, h.blockID):
			return nil
		}
		if parts, err = unpackPieces(packed, h.attempt, parts); err != nil {
			return err
		}
		if !p.addPieces(parts) {
			cut = append(cut, h.blockID)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the summaries of metrics: %w", err)
	}
	return cut, nil
}

// place returns how the points of a piece are added: not at all, together, or one by one.
func (p *plot) place(part *piece) where {
	axis := p.window.Axis
	if axis == Times && !part.ordered {
		return across
	}
	low, high := axis.of(&part.First), axis.of(&part.Last)
	at := p.window.place(low, high)
	if at == inside && (p.blocks.expand || p.buckets != nil && p.grid.bucket(low) != p.grid.bucket(high)) {
		return across
	}
	return at
}

// addPieces adds the pieces of a clean block whose points need not be known. It reports whether these are all pieces.
func (p *plot) addPieces(parts []piece) bool {
	complete := true
	for i := range parts {
		part := &parts[i]
		switch p.place(part) {
		case across:
			complete = false
		case inside:
			p.chart.merge(&part.Stats, p.window.Axis)
			if p.buckets != nil {
				p.buckets[p.grid.bucket(p.window.Axis.of(&part.First))].merge(&part.Stats, p.window.Axis)
			}
		case outside:
		}
	}
	return complete
}

// addCut adds the points of the pieces that addPieces did not add.
func (p *plot) addCut(attempt int32, points []entry, parts []piece) {
	for i := range parts {
		n := min(int(parts[i].Count), len(points))
		if p.place(&parts[i]) == across {
			for _, e := range points[:n] {
				p.add(Seen{Step: e.Step, Value: e.Value, Micros: e.Micros, Attempt: attempt})
			}
		}
		points = points[n:]
	}
}
