package metric

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Bounds of the compactor. It looks for work every compactEvery. Rows of an open run stay for hotAge, because followers
// read them, and until there are enough points for blocks of about blockSize points. One step moves at most segmentRows
// rows, and rows of at most about segmentPoints points. Of a closed run, it leaves fewer than leastBlock points per key.
// It tries again failedAfter a failure. After each step it rests restFactor times as long as the step took, and at most
// restMost, so that reports keep the machine to themselves.
const (
	compactEvery  = 10 * time.Second
	hotAge        = time.Minute
	stepTimeout   = time.Minute
	failedAfter   = 10 * time.Minute
	restFactor    = 19
	restMost      = 5 * time.Minute
	segmentRows   = 100_000
	segmentPoints = 1 << 19
	leastBlock    = 64
)

// Compactor moves the rows of runs into blocks, which charts can read faster. It moves the rows with the lowest numbers
// first, so that all rows of a run have higher numbers than its segments. One transaction deletes rows and inserts their
// blocks, so no failure loses or doubles a point. Several replicas can run at the same time.
type Compactor struct {
	pool   *pgxpool.Pool
	clock  clock.Clock
	log    *slog.Logger
	points otelmetric.Int64Counter
	blocks otelmetric.Int64Counter
	// age, most and rest are hotAge, segmentPoints and restFactor.
	age  time.Duration
	most int
	rest time.Duration
}

// NewCompactor returns a compactor. meters may be nil.
func NewCompactor(pool *pgxpool.Pool, clk clock.Clock, log *slog.Logger, meters otelmetric.MeterProvider) (*Compactor, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	c := &Compactor{pool: pool, clock: clk, log: log, age: hotAge, most: segmentPoints, rest: restFactor}
	var err, other error
	c.points, err = meters.Meter("ingest").Int64Counter("ingest_compacted_points_total",
		otelmetric.WithDescription("metric points that were moved from the rows of reports into blocks"))
	c.blocks, other = meters.Meter("ingest").Int64Counter("ingest_compacted_blocks_total",
		otelmetric.WithDescription("blocks into which metric points were moved"))
	if err = errors.Join(err, other); err != nil {
		return nil, fmt.Errorf("create the counters of the compactor: %w", err)
	}
	return c, nil
}

// Run moves rows until ctx ends.
func (c *Compactor) Run(ctx context.Context) error {
	return process.Loop(ctx, c.clock, compactEvery, compactEvery/2, process.Logged(c.log, "ingest.compact", c.pass))
}

// pass examines each run that is due. It examines a run whose rows cannot be moved again later, so that the run does not
// delay others.
func (c *Compactor) pass(ctx context.Context) error {
	for {
		began := c.clock.Now()
		h, err := c.step(ctx)
		if err != nil && h != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "cannot move the metrics of a run into blocks; trying again later", "run", h.run, "error", err.Error())
			err = postpone(ctx, c.pool, h.run, c.clock.Now().Add(failedAfter))
		}
		if err != nil || h == nil || ctx.Err() != nil {
			return err
		}
		if err := clock.Sleep(ctx, c.clock, min(restMost, c.rest*clock.Since(c.clock, began))); err != nil {
			return err
		}
	}
}

// step examines the run that is due first, moves at most one segment, and returns the run. It returns nil if no run is due.
func (c *Compactor) step(ctx context.Context) (*hot, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var h *hot
	var moved *segment
	err := pg.InTx(ctx, c.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		moved = nil
		if h, err = c.next(ctx, tx); err != nil || h == nil {
			return err
		}
		last, err := c.prefix(ctx, tx, h)
		if err == nil && last > 0 {
			moved, err = move(ctx, tx, h.run, last)
		}
		if err == nil {
			err = summarize(ctx, tx, h.run, groupBlocks*max(1, h.keys))
		}
		switch {
		case err != nil || last > 0:
			return err
		case h.closed:
			return forget(ctx, tx, h.run)
		}
		return postpone(ctx, tx, h.run, c.clock.Now().Add(max(c.age, compactEvery)))
	})
	if err == nil && moved != nil {
		c.points.Add(ctx, int64(moved.points))
		c.blocks.Add(ctx, int64(moved.blocks))
	}
	return h, err
}

func forget(ctx context.Context, q pg.Querier, runID string) error {
	if _, err := q.Exec(ctx, `DELETE FROM metric_hot WHERE run_id = $1`, runID); err != nil {
		return fmt.Errorf("forget a run without metrics to move: %w", err)
	}
	return nil
}

func postpone(ctx context.Context, q pg.Querier, runID string, due time.Time) error {
	if _, err := q.Exec(ctx, `UPDATE metric_hot SET due = $2 WHERE run_id = $1`, runID, due); err != nil {
		return fmt.Errorf("postpone the move of metrics: %w", err)
	}
	return nil
}

// hot is a run that may have rows to move. No other transaction moves its rows.
type hot struct {
	run    string
	keys   int
	closed bool
}

// next locks and returns the run that is due first, or returns nil.
func (c *Compactor) next(ctx context.Context, tx pgx.Tx) (*hot, error) {
	h := &hot{}
	err := tx.QueryRow(ctx, `SELECT h.run_id, r.key_count, r.closed_at IS NOT NULL FROM metric_hot h JOIN run r ON r.id = h.run_id
		WHERE h.due <= $1 AND r.expired_at IS NULL ORDER BY h.due LIMIT 1 FOR UPDATE OF h SKIP LOCKED`, c.clock.Now()).Scan(&h.run, &h.keys, &h.closed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find metrics to move: %w", err)
	}
	return h, nil
}

// prefix returns the number of the last row of the next segment, or 0 if the run does not have enough points yet.
func (c *Compactor) prefix(ctx context.Context, tx pgx.Tx, h *hot) (last int64, err error) {
	rows, err := tx.Query(ctx, `SELECT seq, points, created_at FROM metric_batch WHERE run_id = $1 ORDER BY seq LIMIT $2`, h.run, segmentRows)
	if err != nil {
		return 0, fmt.Errorf("count the metrics to move: %w", err)
	}
	defer rows.Close()
	var seq int64
	var created time.Time
	var n, total, count int
	young := c.clock.Now().Add(-c.age)
	for total < c.most && rows.Next() {
		if err := rows.Scan(&seq, &n, &created); err != nil {
			return 0, fmt.Errorf("count the metrics to move: %w", err)
		}
		if !h.closed && created.After(young) {
			break
		}
		last, total, count = seq, total+n, count+1
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("count the metrics to move: %w", err)
	}
	enough := blockSize * h.keys
	if h.closed {
		enough = leastBlock * h.keys
	}
	if total >= min(enough, c.most) && total > 0 || count == segmentRows {
		return last, nil
	}
	return 0, nil
}

// The constant groupBlocks is the average number of blocks per key from which they are summarized, and groupSegments is
// the number of segments from which they are summarized anyway. A level has at most about maxBriefs briefs, and the highest
// one at most leastBriefs.
const (
	groupBlocks   = 64
	groupSegments = 256
	leastBriefs   = 8
	maxBriefs     = 1 << 16
)

// summarize adds the summaries of the segments of a run that have none, if there are enough blocks.
func summarize(ctx context.Context, tx pgx.Tx, runID string, enough int) error {
	var covered int64
	var blocks, segments int
	err := tx.QueryRow(ctx, `WITH c AS (SELECT coalesce(max(last_seq), -1) AS seq FROM metric_summary WHERE run_id = $1 AND level = 0)
		SELECT c.seq, (SELECT count(*) FROM metric_block WHERE run_id = $1 AND first_seq > c.seq),
			(SELECT count(*) FROM metric_segment WHERE run_id = $1 AND last_seq > c.seq) FROM c`, runID).Scan(&covered, &blocks, &segments)
	if err != nil {
		return fmt.Errorf("count the blocks without a summary: %w", err)
	}
	if blocks < enough && segments < groupSegments {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT key, first_seq, attempt, low_step, high_step, points, pieces FROM metric_block
		WHERE run_id = $1 AND first_seq > $2 ORDER BY key, first_seq, part`, runID, covered)
	if err != nil {
		return fmt.Errorf("read the blocks without a summary: %w", err)
	}
	var h head
	var packed pgtype.DriverBytes
	var one *summarized
	var out [][]any
	_, err = pgx.ForEachRow(rows, []any{&h.key, &h.first, &h.attempt, &h.lowStep, &h.highStep, &h.points, &packed}, func() error {
		if one == nil || one.key != h.key {
			out, one = one.rows(out, runID), &summarized{head: h}
		}
		return one.add(&h, packed)
	})
	if err != nil {
		return fmt.Errorf("read the blocks without a summary: %w", err)
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"metric_summary"}, []string{
		"run_id", "level", "key", "first_seq", "last_seq", "attempt", "low_step", "high_step", "points", "least", "most", "data",
	}, pgx.CopyFromRows(one.rows(out, runID)))
	if err != nil {
		return fmt.Errorf("store summaries of metrics: %w", err)
	}
	return nil
}

// summarized collects the blocks of a key for a summary. The field attempt of the head is 0 if they have no summary.
type summarized struct {
	head

	blocks int
	all    piece
	parts  []piece
	briefs []brief
}

// add adds the next block.
func (s *summarized) add(h *head, packed []byte) error {
	s.least = max(s.least, int16(pieceShift(h.lowStep, h.highStep, int(h.points)))+1)
	if s.blocks++; s.blocks > 1 {
		if h.attempt != s.attempt || h.lowStep <= s.highStep {
			s.attempt = 0
		}
		s.lowStep, s.highStep, s.points = min(s.lowStep, h.lowStep), max(s.highStep, h.highStep), s.points+h.points
	}
	s.last = h.first
	if s.attempt == 0 {
		return nil
	}
	var err error
	if s.parts, err = unpackPieces(packed, h.attempt, s.parts); err != nil {
		return err
	}
	of := whole(s.parts)
	if s.blocks > 1 {
		of = whole([]piece{s.all, of})
	}
	s.all = of
	for i := range s.parts {
		s.briefs = append(s.briefs, briefOf(&s.parts[i].Stats))
	}
	for len(s.briefs) > maxBriefs {
		if s.briefs = raise(s.briefs, s.least); len(s.briefs) > maxBriefs {
			s.least++
		}
	}
	return nil
}

// rows appends the rows of the summary.
func (s *summarized) rows(out [][]any, runID string) [][]any {
	if s == nil {
		return out
	}
	if s.blocks < 2 {
		s.attempt = 0 // the summary would be no shorter than the block
	}
	if s.attempt == 0 {
		s.most = s.least
		return append(out, s.row(runID, 0, nil))
	}
	s.most = s.least
	levels := [][]byte{}
	for briefs := s.briefs; ; s.most++ {
		briefs = raise(briefs, s.most)
		levels = append(levels, packBriefs(briefs))
		if len(briefs) <= leastBriefs || s.most == 62 {
			break
		}
	}
	out = append(out, s.row(runID, 0, packPieces([]piece{s.all})))
	for i, data := range levels {
		out = append(out, s.row(runID, s.least+int16(i), data))
	}
	return out
}

func (s *summarized) row(runID string, level int16, data []byte) []any {
	if data == nil {
		data = []byte{}
	}
	return []any{runID, level, s.key, s.first, s.last, s.attempt, s.lowStep, s.highStep, s.points, s.least, s.most, data}
}
