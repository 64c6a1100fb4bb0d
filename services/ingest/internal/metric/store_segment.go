package metric

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// segment is a part of a run's rows while it is moved.
type segment struct {
	first, last    int64
	rows           []row
	points, blocks int
}

// row is a row of metric_batch.
type row struct {
	seq     int64
	attempt int32
	rank    *int32
	created time.Time
	points  []Point
}

type keyAttempt struct{ key, attempt int32 }

// move replaces the rows of a run up to a number by a segment and its blocks.
func move(ctx context.Context, tx pgx.Tx, runID string, last int64) (*segment, error) {
	s, err := takeRows(ctx, tx, runID, last)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO metric_segment (run_id, first_seq, last_seq, rows) VALUES ($1, $2, $3, $4)`,
		runID, s.first, s.last, packRows(s.rows))
	if err != nil {
		return nil, fmt.Errorf("store a segment of metrics: %w", err)
	}
	inserts := s.encode(runID)
	s.blocks = len(inserts)
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"metric_block"}, []string{
		"run_id", "first_seq", "key", "part", "attempt", "low_step", "high_step", "low_time", "high_time", "low_index", "high_index", "points",
		"whole", "pieces", "data",
	}, pgx.CopyFromRows(inserts))
	if err != nil {
		return nil, fmt.Errorf("store blocks of metrics: %w", err)
	}
	return s, nil
}

// takeRows deletes and returns rows.
func takeRows(ctx context.Context, tx pgx.Tx, runID string, last int64) (*segment, error) {
	rows, err := tx.Query(ctx, `DELETE FROM metric_batch WHERE run_id = $1 AND seq <= $2 RETURNING seq, attempt, rank, created_at, data`, runID, last)
	if err != nil {
		return nil, fmt.Errorf("take the rows of metrics: %w", err)
	}
	s := &segment{}
	var one row
	var data pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&one.seq, &one.attempt, &one.rank, &one.created, &data}, func() error {
		if one.points, err = Unpack(data, nil, nil); err != nil {
			return err
		}
		s.rows = append(s.rows, one)
		s.points += len(one.points)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("take the rows of metrics: %w", err)
	}
	if len(s.rows) == 0 {
		return nil, errGone
	}
	slices.SortFunc(s.rows, func(a, b row) int { return cmp.Compare(a.seq, b.seq) })
	s.first, s.last = s.rows[0].seq, s.rows[len(s.rows)-1].seq
	return s, nil
}

// errGone is returned if the rows were deleted since they were counted.
var errGone = errors.New("the rows of metrics were deleted")

// encode returns the rows of metric_block, in the order of their primary key.
func (s *segment) encode(runID string) [][]any {
	series := map[keyAttempt][]entry{}
	at := uint32(0)
	for _, r := range s.rows {
		for _, p := range r.points {
			k := keyAttempt{p.Key, r.attempt}
			series[k] = append(series[k], entry{Step: p.Step, Micros: p.Micros, Value: p.Value, at: at})
			at++
		}
	}
	keys := slices.SortedFunc(maps.Keys(series), func(a, b keyAttempt) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.attempt, b.attempt))
	})
	var out [][]any
	var part, key int32
	for _, k := range keys {
		if k.key != key {
			part, key = 0, k.key
		}
		for _, points := range blocked(series[k]) {
			out = append(out, s.encodeBlock(runID, k, part, points))
			part++
		}
	}
	return out
}

func (s *segment) encodeBlock(runID string, k keyAttempt, part int32, points []entry) []any {
	last := winners(points, nil)
	lowTime, highTime := last[0].Micros, last[0].Micros
	for _, p := range last {
		lowTime, highTime = min(lowTime, p.Micros), max(highTime, p.Micros)
	}
	lowIndex, highIndex := points[0].at, points[0].at
	for _, p := range points {
		lowIndex, highIndex = min(lowIndex, p.at), max(highIndex, p.at)
	}
	parts := pieces(last, k.attempt)
	return []any{
		runID, s.first, k.key, part, k.attempt, last[0].Step, last[len(last)-1].Step, lowTime, highTime, int32(lowIndex), int32(highIndex),
		int32(len(last)), packPieces([]piece{whole(parts)}), packPieces(parts), packBlock(points),
	}
}

// packRows encodes the rows of a segment without their points, but with the numbers of points.
func packRows(rows []row) []byte {
	out := binary.AppendUvarint(nil, uint64(len(rows)))
	for _, column := range []func(r *row) int64{
		func(r *row) int64 { return r.seq },
		func(r *row) int64 { return int64(len(r.points)) },
		func(r *row) int64 { return int64(r.attempt) },
		func(r *row) int64 {
			if r.rank == nil {
				return -1
			}
			return int64(*r.rank)
		},
		func(r *row) int64 { return r.created.UnixMicro() },
	} {
		out = appendColumn(out, len(rows), func(i int) int64 { return column(&rows[i]) })
	}
	return out
}

// batchRow is the number of a row and the indexes of its points in its segment: from begin to before end.
type batchRow struct {
	seq        int64
	begin, end uint32
}

// unpackRows decodes the numbers of rows and of their points from the output of packRows.
func unpackRows(data []byte) ([]batchRow, error) {
	r := reader{data: data}
	n := r.uvarint()
	if n > segmentRows+1 {
		return nil, errBatch
	}
	rows := make([]batchRow, n)
	at := uint32(0)
	r.column(int(n), func(i int, v int64) { rows[i].seq = v })
	r.column(int(n), func(i int, v int64) {
		rows[i].begin = at
		at += uint32(v)
		rows[i].end = at
	})
	if r.failed {
		return nil, errBatch
	}
	return rows, nil
}

// rebuild makes the rows after a number again, if they are in a segment: those of the first such segment, as far as After
// returns them.
func rebuild(ctx context.Context, db pg.Querier, runID string, seq int64) ([]Batch, error) {
	var first int64
	var packed []byte
	err := db.QueryRow(ctx, `SELECT first_seq, rows FROM metric_segment WHERE run_id = $1 AND last_seq > $2 ORDER BY last_seq LIMIT 1`,
		runID, seq).Scan(&first, &packed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a segment of metrics: %w", err)
	}
	rows, err := unpackRows(packed)
	if err != nil {
		return nil, err
	}
	from, _ := slices.BinarySearchFunc(rows, seq+1, func(r batchRow, seq int64) int { return cmp.Compare(r.seq, seq) })
	rows = rows[from:min(len(rows), from+rebuilt)]
	for i := range rows {
		if rows[i].begin-rows[0].begin >= followedPoints {
			rows = rows[:i]
			break
		}
	}
	begin := rows[0].begin
	points, err := pointsOf(ctx, db, runID, first, begin, rows[len(rows)-1].end)
	if err != nil {
		return nil, err
	}
	batches := make([]Batch, len(rows))
	for i, r := range rows {
		batches[i] = Batch{Seq: r.seq, Points: points[r.begin-begin : r.end-begin : r.end-begin]}
	}
	return batches, nil
}

// pointsOf returns the points of a segment with the given indexes, in the order of the reports.
func pointsOf(ctx context.Context, db pg.Querier, runID string, first int64, begin, end uint32) ([]KeyedPoint, error) {
	rows, err := db.Query(ctx, `SELECT key, data FROM metric_block WHERE run_id = $1 AND first_seq = $2 AND low_index < $4 AND high_index >= $3`,
		runID, first, int32(begin), int32(end))
	if err != nil {
		return nil, fmt.Errorf("read the blocks of a segment: %w", err)
	}
	out := make([]KeyedPoint, end-begin)
	found := 0
	var key int32
	var data pgtype.DriverBytes
	var points []entry
	_, err = pgx.ForEachRow(rows, []any{&key, &data}, func() error {
		if points, err = unpackBlock(data, points); err != nil {
			return err
		}
		for _, e := range points {
			if e.at >= begin && e.at < end {
				out[e.at-begin].Point = Point{Key: key, Step: e.Step, Value: e.Value, Micros: e.Micros}
				found++
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the blocks of a segment: %w", err)
	}
	if found != len(out) {
		return nil, errBatch
	}
	return out, nil
}

// The statements that scanBlocks reads blocks with: all blocks of some keys, or the blocks with the given ids.
const (
	blocksSQL = `SELECT first_seq, key, attempt, low_index, high_index, data FROM metric_block WHERE run_id = $1 AND key = ANY($2) ORDER BY first_seq, key, low_index`
	dirtySQL  = `SELECT b.first_seq, b.key, b.attempt, b.low_index, b.high_index, b.data
		FROM unnest($2::bigint[], $3::int[], $4::int[]) i(f, k, p)
		JOIN metric_block b ON b.run_id = $1 AND b.first_seq = i.f AND b.key = i.k AND b.part = i.p ORDER BY b.first_seq, b.key, b.low_index`
)

// mixed collects the points of blocks of a key whose reports overlap.
type mixed struct {
	first  int64
	key    int32
	high   int32 // the highest index
	points []mixedPoint
}

type mixedPoint struct {
	entry

	attempt int32
}

// flush passes the points to visit in the order of their reports.
func (m *mixed) flush(visit func(attempt int32, p Point)) {
	byReport := func(a, b mixedPoint) int { return cmp.Compare(a.at, b.at) }
	if !slices.IsSortedFunc(m.points, byReport) {
		slices.SortFunc(m.points, byReport)
	}
	for i := range m.points {
		p := &m.points[i]
		visit(p.attempt, Point{Key: m.key, Step: p.Step, Value: p.Value, Micros: p.Micros})
	}
	m.points = m.points[:0]
}

// scanBlocks passes every point of blocks to visit. The points of each key are in the order of their reports.
func scanBlocks(ctx context.Context, visit func(attempt int32, p Point), db pg.Querier, sql string, args ...any) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("read blocks of metrics: %w", err)
	}
	var first int64
	var key, attempt, low, high int32
	var data pgtype.DriverBytes
	var points []entry
	var m mixed
	_, err = pgx.ForEachRow(rows, []any{&first, &key, &attempt, &low, &high, &data}, func() error {
		if points, err = unpackBlock(data, points); err != nil {
			return err
		}
		if first != m.first || key != m.key || low > m.high {
			m.flush(visit)
			m.first, m.key, m.high = first, key, high
		}
		m.high = max(m.high, high)
		for _, e := range points {
			m.points = append(m.points, mixedPoint{e, attempt})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read blocks of metrics: %w", err)
	}
	m.flush(visit)
	return nil
}

// blockPoints are the last reports of the steps of a block, column by column.
type blockPoints struct {
	steps, micros []int64
	values        []float64
}

// unpack decodes the output of packBlock; the times only if they are wanted.
func (c *blockPoints) unpack(data []byte, times bool) error {
	if len(data) == 0 || data[0] != values64 && data[0] != values32 {
		return errBatch
	}
	size := 8
	if data[0] == values32 {
		size = 4
	}
	r := reader{data: data[1:]}
	n := r.uvarint()
	if n > uint64(len(data)/size) {
		return errBatch
	}
	c.steps, c.values = slices.Grow(c.steps[:0], int(n))[:n], slices.Grow(c.values[:0], int(n))[:n]
	r.numbers(c.steps)
	if times {
		c.micros = slices.Grow(c.micros[:0], int(n))[:n]
		r.numbers(c.micros) // the indexes, which are not wanted
		r.numbers(c.micros)
	} else {
		r.data = r.data[max(0, len(r.data)-int(n)*size):]
	}
	if r.failed || len(r.data) != int(n)*size {
		return errBatch
	}
	for i := range c.values {
		if size == 4 {
			c.values[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(r.data[i*4:])))
		} else {
			c.values[i] = math.Float64frombits(binary.LittleEndian.Uint64(r.data[i*8:]))
		}
	}
	c.dropReplaced(times)
	return nil
}

// dropReplaced removes the reports that later ones of the same step replace.
func (c *blockPoints) dropReplaced(times bool) {
	kept := 0
	for i, step := range c.steps {
		if i+1 < len(c.steps) && c.steps[i+1] == step {
			continue
		}
		if kept < i {
			if c.steps[kept], c.values[kept] = step, c.values[i]; times {
				c.micros[kept] = c.micros[i]
			}
		}
		kept++
	}
	if c.steps, c.values = c.steps[:kept], c.values[:kept]; times {
		c.micros = c.micros[:kept]
	}
}
