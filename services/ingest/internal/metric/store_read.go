package metric

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads points.
type Store struct{ Pool pg.Querier }

// Series holds the points of one key.
type Series struct {
	Key    string
	Points []Seen
}

// maxPoints is the maximum number of points in one response, so that the response fits into a gRPC message.
const maxPoints = 90_000

// List returns a page of a run's series, sorted by key. If keys is not empty, it returns only the series with these
// keys. more reports whether another page follows. Series that are too long for one response are thinned.
func (s *Store) List(ctx context.Context, runID string, keys []string, p request.Page) (series []Series, more bool, err error) {
	ids, series, err := s.keys(ctx, runID, keys, p)
	if err != nil || len(series) == 0 {
		return nil, false, err
	}
	series, more = request.CutPage(series, p)
	wanted := map[int32]history{}
	for _, id := range ids[:len(series)] {
		wanted[id] = history{}
	}
	if err := s.read(ctx, runID, wanted); err != nil {
		return nil, false, err
	}
	for i := range series {
		series[i].Points = Thin(wanted[ids[i]].resolve(), maxPoints/len(series))
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
	rows, err := s.Pool.Query(ctx, `SELECT id, key FROM metric_key WHERE run_id = $1 AND ($2::bytea[] IS NULL OR key = ANY($2))
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

// read adds the run's points to the histories in wanted, whose keys are ids of metric keys. It adds the points in the
// order in which they were stored.
func (s *Store) read(ctx context.Context, runID string, wanted map[int32]history) error {
	rows, err := s.Pool.Query(ctx, `SELECT attempt, data FROM metric_batch WHERE run_id = $1 ORDER BY seq`, runID)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	defer rows.Close()
	var points []Point
	for rows.Next() {
		var attempt int32
		var data []byte
		if err := rows.Scan(&attempt, &data); err != nil {
			return fmt.Errorf("read metrics: %w", err)
		}
		if points, err = Unpack(data, points[:0]); err != nil {
			return err
		}
		for _, p := range points {
			if h, ok := wanted[p.Key]; ok {
				h.add(attempt, p)
			}
		}
	}
	return rows.Err()
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

// followed is the maximum number of batches that After returns.
const followed = 64

// After returns the batches whose numbers are greater than seq, in order, at most followed of them.
func (s *Store) After(ctx context.Context, runID string, seq int64) ([]Batch, error) {
	rows, err := s.Pool.Query(ctx, `SELECT seq, data FROM metric_batch WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`,
		runID, seq, followed)
	if err != nil {
		return nil, fmt.Errorf("read metric batches: %w", err)
	}
	var raw []byte
	var batches []Batch
	_, err = pgx.ForEachRow(rows, []any{&seq, &raw}, func() error {
		points, err := Unpack(raw, nil)
		if err != nil {
			return err
		}
		b := Batch{Seq: seq}
		for _, p := range points {
			b.Points = append(b.Points, KeyedPoint{Point: p})
		}
		batches = append(batches, b)
		return nil
	})
	if err != nil || len(batches) == 0 {
		return nil, err
	}
	// Load the keys after the batches, so that they include the keys of all batches.
	names, err := loadKeys(ctx, s.Pool, runID, 0, MaxKeys)
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
