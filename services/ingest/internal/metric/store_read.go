package metric

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Store reads points.
type Store struct {
	pool database
	gate *run.Gate
	// The limits of what the reading of charts holds in memory: recentSteps, maxLate, maxClean and maxJoined.
	recent, late, clean, joined int
	// attempt is the attempt whose points are read; 0 for those that newer attempts do not hide. The maximum sizes of
	// responses are divided by parts.
	attempt int32
	parts   int
	// rank is the process whose points are read; nil for the lowest rank that has a key.
	rank *int32
}

type database interface {
	querier
	pg.Beginner
}

// NewStore returns a store. The gate admits the calls that read points.
func NewStore(pool database, gate *run.Gate) *Store {
	return &Store{pool: pool, gate: gate, recent: recentSteps, late: maxLate, clean: maxClean, joined: maxJoined, parts: 1}
}

// Series holds the points of one key.
type Series struct {
	Key  string
	Rank int32 // of the process that reported the points
	// Omitted is the number of points that were left out because the response has no room for them.
	Omitted int64
	Points  []Seen
}

// maxPoints is the maximum number of points in one response, so that the response fits into a gRPC message. List holds
// at most twice as many while it reads.
const maxPoints = 90_000

// room returns the maximum number of points of each of n series.
func (s *Store) room(n int) int { return maxPoints / s.parts / n }

// List returns a page of a run's series, sorted by key. If keys is not empty, it returns only the series with these
// keys. more reports whether another page follows. Series that are too long for one response are thinned. List reads
// the run's rows one after another, and the memory that it uses does not depend on their number. List waits while too
// many calls read, in total or for the same caller.
func (s *Store) List(ctx context.Context, runID string, keys []string, p request.Page) (series []Series, more bool, err error) {
	return s.list(ctx, run.CallerReader(ctx), runID, keys, p)
}

// ListShared is List for the readers of share links. Only one of their calls reads at a time, so that the links do not
// delay users.
func (s *Store) ListShared(ctx context.Context, runID string, keys []string, p request.Page) (series []Series, more bool, err error) {
	return s.list(ctx, run.ShareReader(runID), runID, keys, p)
}

func (s *Store) list(
	ctx context.Context, by run.Reader, runID string, keys []string, p request.Page,
) (series []Series, more bool, err error) {
	ids, series, err := s.keys(ctx, runID, keys, p)
	if err != nil || len(series) == 0 {
		return nil, false, err
	}
	series, more = request.CutPage(series, p)
	leave, err := s.gate.Enter(ctx, by)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	ids = ids[:len(series)]
	wanted := make(views, slices.Max(ids)+1)
	for _, id := range ids {
		wanted[id] = newView(s.room(len(series)))
	}
	err = s.snapshot(ctx, func(ctx context.Context, db pgx.Tx) error { return s.read(ctx, db, runID, ids, wanted) })
	if err != nil {
		return nil, false, err
	}
	for i, id := range ids {
		series[i].Points = wanted[id].seen(s.room(len(series)))
		series[i].Omitted = Omitted(series[i].Points)
	}
	return series, more, nil
}

// maxJoined is the maximum number of points of all series together that Joined reads. It holds twice as many.
const maxJoined = 1 << 19

// Joined is like List, but returns all points of the series, and those of the series with the key x. It returns an error
// if the run has no such series, or if a series has too many points.
func (s *Store) Joined(ctx context.Context, runID string, keys []string, x string, p request.Page) (series []Series, over []Seen, more bool, err error) {
	of, err := s.keysOf(ctx, []string{runID}, []string{x})
	if err != nil {
		return nil, nil, false, err
	}
	if of[runID] == nil {
		of := "the run"
		if s.rank != nil {
			of = fmt.Sprintf("rank %d of the run", *s.rank)
		}
		return nil, nil, false, fault.New(fault.Refused, "chart_axis", "%s has no metric %q; use step, time or one of its keys as x", of, x)
	}
	ids, series, err := s.keys(ctx, runID, keys, p)
	if err != nil || len(series) == 0 {
		return nil, nil, false, err
	}
	series, more = request.CutPage(series, p)
	leave, err := s.gate.Enter(ctx, run.CallerReader(ctx))
	if err != nil {
		return nil, nil, false, err
	}
	defer leave()
	ids = append(ids[:len(series):len(series)], of[runID].ids...)
	most := s.joined / len(ids) / s.parts
	wanted := make(views, slices.Max(ids)+1)
	for _, id := range ids {
		wanted[id] = newView(most)
	}
	err = s.snapshot(ctx, func(ctx context.Context, db pgx.Tx) error { return s.read(ctx, db, runID, ids, wanted) })
	for i, id := range ids {
		points, complete := wanted[id].complete()
		switch {
		case err != nil:
		case !complete:
			err = fault.New(fault.Refused, "chart_points", "a series has more than %d points; request fewer keys, or use step or time as x", most)
		case i < len(series):
			series[i].Points = points
		}
		over = points // the last one is x
	}
	return series, over, more, err
}

// Keys returns the keys of several runs, sorted, at most limit.
func (s *Store) Keys(ctx context.Context, runs []string, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT key FROM metric_key WHERE run_id = ANY($1) ORDER BY key LIMIT $2`, runs, limit)
	if err != nil {
		return nil, fmt.Errorf("list the metric keys of runs: %w", err)
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var key []byte
		err := row.Scan(&key)
		return string(key), err
	})
	if err != nil {
		return nil, fmt.Errorf("list the metric keys of runs: %w", err)
	}
	return keys, nil
}

func (s *Store) keys(ctx context.Context, runID string, keys []string, p request.Page) ([]int32, []Series, error) {
	var only [][]byte // nil selects all keys
	if len(keys) > 0 {
		only = make([][]byte, 0, len(keys))
	}
	for _, key := range keys {
		only = append(only, []byte(key))
	}
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT ON (key) id, key, rank FROM metric_key WHERE run_id = $1 AND ($2::bytea[] IS NULL OR key = ANY($2))
		AND ($5::int IS NULL OR rank = $5) ORDER BY key, rank LIMIT $3 OFFSET $4`, runID, only, p.FetchLimit(), p.Offset, s.rank)
	if err != nil {
		return nil, nil, fmt.Errorf("list metric keys: %w", err)
	}
	defer rows.Close()
	var ids []int32
	var series []Series
	for rows.Next() {
		var id, rank int32
		var key []byte
		if err := rows.Scan(&id, &key, &rank); err != nil {
			return nil, nil, fmt.Errorf("list metric keys: %w", err)
		}
		ids, series = append(ids, id), append(series, Series{Key: string(key), Rank: rank})
	}
	return ids, series, rows.Err()
}

// views contains a view for each wanted metric key. The index is the id of the key; entries of other keys are nil.
type views []*view

func (w views) of(key int32) *view {
	if key < 0 || int(key) >= len(w) {
		return nil
	}
	return w[key]
}

func (w views) has(key int32) bool { return w.of(key) != nil }

// read adds the run's points to their views, in the order in which they were stored. If the run has several attempts,
// read first finds out which points newer attempts hide: a long series is thinned while it is read, and hidden points
// must not take part in that.
func (s *Store) read(ctx context.Context, db pg.Querier, runID string, ids []int32, wanted views) error {
	var attempt int32
	var last int64
	err := db.QueryRow(ctx, `SELECT attempt, batch_seq FROM run WHERE id = $1`, runID).Scan(&attempt, &last)
	if err != nil {
		return fmt.Errorf("load the position of the metrics: %w", err)
	}
	shown, err := s.attemptsOf(ctx, db, runID, attempt)
	if err != nil {
		return err
	}
	for _, v := range wanted {
		if v != nil {
			v.attempts = shown
		}
	}
	add := func(attempt int32, p Point) { wanted.of(p.Key).add(attempt, p) }
	if err := addBlocks(ctx, db, runID, ids, wanted); err != nil {
		return err
	}
	return scan(ctx, wanted.has, add, db, runID, last)
}

// addBlocks adds the points of blocks to their views: of each step of a key and an attempt, the last report last.
func addBlocks(ctx context.Context, db pg.Querier, runID string, ids []int32, wanted views) error {
	rows, err := db.Query(ctx, `SELECT key, attempt, data FROM metric_block WHERE run_id = $1 AND key = ANY($2) ORDER BY first_seq, key, part`, runID, ids)
	if err != nil {
		return fmt.Errorf("read blocks of metrics: %w", err)
	}
	var key, attempt int32
	var data pgtype.DriverBytes
	var c blockPoints
	_, err = pgx.ForEachRow(rows, []any{&key, &attempt, &data}, func() error {
		err := c.unpack(data, true)
		if err == nil {
			wanted.of(key).addColumns(attempt, &c)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read blocks of metrics: %w", err)
	}
	return nil
}

// snapshot calls fn with a connection on which all statements see the same rows and blocks. Otherwise points that are
// moved between two statements could be missing.
func (s *Store) snapshot(ctx context.Context, fn func(ctx context.Context, db pgx.Tx) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pg.InTxWith(ctx, s.pool, opts, fn)
}

// forwardSQL is the statement that scan reads a run's rows with, up to a row's number.
const forwardSQL = `SELECT attempt, data FROM metric_batch WHERE run_id = $1 AND seq <= $2 ORDER BY seq`

// scan passes every point of a wanted key to visit. The points are in the rows of a query that selects attempt and
// data.
func scan(
	ctx context.Context, wanted func(key int32) bool, visit func(attempt int32, p Point), q pg.Querier, runID string, last int64,
) error {
	rows, err := q.Query(ctx, forwardSQL, runID, last)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	var attempt int32
	var data pgtype.DriverBytes
	var points []Point
	_, err = pgx.ForEachRow(rows, []any{&attempt, &data}, func() error {
		if points, err = Unpack(data, points[:0], wanted); err != nil {
			return err
		}
		for _, p := range points {
			if wanted(p.Key) {
				visit(attempt, p)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	return nil
}
