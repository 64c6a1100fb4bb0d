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
)

// Store reads points.
type Store struct {
	pool  pg.Querier
	reads chan struct{} // holds a value for each call of List that reads points
}

// maxReads is the maximum number of calls of List that read points at the same time, because each of them occupies
// memory and a connection for as long as it reads. Other calls wait.
const maxReads = 4

// NewStore returns a store.
func NewStore(pool pg.Querier) *Store {
	return &Store{pool: pool, reads: make(chan struct{}, maxReads)}
}

// Series holds the points of one key.
type Series struct {
	Key    string
	Points []Seen
}

// maxPoints is the maximum number of points in one response, so that the response fits into a gRPC message. maxRoom is
// how many more points List holds while it reads.
const (
	maxPoints = 90_000
	maxRoom   = 2 * maxPoints
)

// List returns a page of a run's series, sorted by key. If keys is not empty, it returns only the series with these
// keys. more reports whether another page follows. Series that are too long for one response are thinned. List reads
// the run's rows one after another, and the memory that it uses does not depend on their number.
func (s *Store) List(ctx context.Context, runID string, keys []string, p request.Page) (series []Series, more bool, err error) {
	ids, series, err := s.keys(ctx, runID, keys, p)
	if err != nil || len(series) == 0 {
		return nil, false, err
	}
	series, more = request.CutPage(series, p)
	select {
	case s.reads <- struct{}{}:
	case <-ctx.Done():
		return nil, false, fault.FromContext(ctx.Err())
	}
	defer func() { <-s.reads }()
	ids = ids[:len(series)]
	wanted := make(views, slices.Max(ids)+1)
	for _, id := range ids {
		wanted[id] = newView(maxRoom / len(series))
	}
	if err := s.read(ctx, runID, wanted); err != nil {
		return nil, false, err
	}
	for i, id := range ids {
		series[i].Points = wanted[id].seen(maxPoints / len(series))
	}
	return series, more, nil
}

func (s *Store) keys(ctx context.Context, runID string, keys []string, p request.Page) ([]int32, []Series, error) {
	var only [][]byte // nil selects all keys
	if len(keys) > 0 {
		only = make([][]byte, 0, len(keys))
	}
	for _, key := range keys {
		only = append(only, []byte(key))
	}
	rows, err := s.pool.Query(ctx, `SELECT id, key FROM metric_key WHERE run_id = $1 AND ($2::bytea[] IS NULL OR key = ANY($2))
		ORDER BY key LIMIT $3 OFFSET $4`, runID, only, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, nil, fmt.Errorf("list metric keys: %w", err)
	}
	defer rows.Close()
	var ids []int32
	var series []Series
	for rows.Next() {
		var id int32
		var key []byte
		if err := rows.Scan(&id, &key); err != nil {
			return nil, nil, fmt.Errorf("list metric keys: %w", err)
		}
		ids, series = append(ids, id), append(series, Series{Key: string(key)})
	}
	return ids, series, rows.Err()
}

// views holds a view for each wanted metric key, at the index that is the id of the key, and otherwise nil.
type views []*view

func (w views) of(key int32) *view {
	if key < 0 || int(key) >= len(w) {
		return nil
	}
	return w[key]
}

// read adds the run's points to their views, in the order in which they were stored. If the run has several attempts, it
// first finds which points newer attempts hide, because a long series is thinned while it is read.
func (s *Store) read(ctx context.Context, runID string, wanted views) error {
	var attempt int32
	var last int64
	err := s.pool.QueryRow(ctx, `SELECT attempt, batch_seq FROM run WHERE id = $1`, runID).Scan(&attempt, &last)
	if err != nil {
		return fmt.Errorf("load the position of the metrics: %w", err)
	}
	if attempt > 1 {
		err := wanted.scan(ctx, func(attempt int32, v *view, p Point) { v.began(attempt, p.Step) }, s.pool,
			`SELECT attempt, data FROM metric_batch WHERE run_id = $1 AND seq <= $2 AND attempt > 1`, runID, last)
		if err != nil {
			return err
		}
		for _, v := range wanted {
			if v != nil {
				v.seal()
			}
		}
	}
	return wanted.scan(ctx, func(attempt int32, v *view, p Point) { v.add(attempt, p) }, s.pool,
		`SELECT attempt, data FROM metric_batch WHERE run_id = $1 AND seq <= $2 ORDER BY seq`, runID, last)
}

// scan calls each for every point of a wanted key in the rows of a query, which selects attempts and data.
func (w views) scan(ctx context.Context, each func(attempt int32, v *view, p Point), q pg.Querier, sql string, args ...any) error {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	var attempt int32
	var data pgtype.DriverBytes
	var points []Point
	isWanted := func(key int32) bool { return w.of(key) != nil }
	_, err = pgx.ForEachRow(rows, []any{&attempt, &data}, func() error {
		if points, err = Unpack(data, points[:0], isWanted); err != nil {
			return err
		}
		for _, p := range points {
			if v := w.of(p.Key); v != nil {
				each(attempt, v, p)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	return nil
}

// Batch holds the points of one row of metric_batch, with the names of their keys.
type Batch struct {
	Seq    int64
	Points []KeyedPoint
}

// KeyedPoint is a point with the name of its key.
type KeyedPoint struct {
	Key string
	Point
}

// followed is the maximum number of batches that After returns. If these have more than followedPoints points, After
// returns only the first ones, but at least one.
const (
	followed       = 64
	followedPoints = 50_000
)

// After returns the batches whose numbers are greater than seq, in order, at most followed of them.
func (s *Store) After(ctx context.Context, runID string, seq int64) ([]Batch, error) {
	rows, err := s.pool.Query(ctx, `SELECT seq, data FROM metric_batch WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
		runID, seq, followed)
	if err != nil {
		return nil, fmt.Errorf("read metric batches: %w", err)
	}
	defer rows.Close()
	var raw pgtype.DriverBytes
	var batches []Batch
	for total := 0; total < followedPoints && rows.Next(); total += len(batches[len(batches)-1].Points) {
		var b Batch
		if err := rows.Scan(&b.Seq, &raw); err != nil {
			return nil, fmt.Errorf("read metric batches: %w", err)
		}
		points, err := Unpack(raw, nil, nil)
		if err != nil {
			return nil, err
		}
		b.Points = make([]KeyedPoint, len(points))
		for i, p := range points {
			b.Points[i].Point = p
		}
		batches = append(batches, b)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read metric batches: %w", err)
	}
	if len(batches) == 0 {
		return nil, nil
	}
	// Load the keys after the batches, so that they include the keys of all batches.
	names, err := loadKeys(ctx, s.pool, runID, 0, MaxKeys)
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		for i := range b.Points {
			id := b.Points[i].Point.Key
			if id < 1 || int(id) > len(names) {
				return nil, errBatch
			}
			b.Points[i].Key = names[id-1]
		}
	}
	return batches, nil
}
