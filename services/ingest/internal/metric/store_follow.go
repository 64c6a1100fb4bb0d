package metric

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

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

// The constant followed is the maximum number of batches that After returns from rows, and rebuilt from a segment, which
// has to be read as a whole. If these have more than followedPoints points, After returns only the first ones, but at
// least one.
const (
	followed       = 64
	rebuilt        = 4096
	followedPoints = 50_000
)

// After returns the next batches whose numbers are greater than seq, in order. It returns at most as many as the
// constants followed and rebuilt state. Batches whose points were moved into blocks are made again.
func (s *Store) After(ctx context.Context, runID string, seq int64) ([]Batch, error) {
	batches, err := s.rowsAfter(ctx, runID, seq)
	if err != nil {
		return nil, err
	}
	if len(batches) == 0 || batches[0].Seq > seq+1 {
		err := s.snapshot(ctx, func(ctx context.Context, db pgx.Tx) error {
			moved, err := rebuild(ctx, db, runID, seq)
			if len(moved) > 0 {
				batches = moved
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(batches) == 0 {
		return nil, nil
	}
	return batches, s.name(ctx, runID, batches)
}

// name sets the keys of the points of batches. It removes the points of those keys that a lower rank has reported too, as
// lists do.
func (s *Store) name(ctx context.Context, runID string, batches []Batch) error {
	ids := map[int32]string{}
	for _, b := range batches {
		for i := range b.Points {
			ids[b.Points[i].Point.Key] = ""
		}
	}
	// The keys are read after the batches, so that they include the keys of all batches.
	rows, err := s.pool.Query(ctx, `SELECT id, key, EXISTS (SELECT FROM metric_key o WHERE o.run_id = $1 AND o.key = k.key AND o.rank < k.rank)
		FROM metric_key k WHERE run_id = $1 AND id = ANY($2)`, runID, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return fmt.Errorf("name the points of batches: %w", err)
	}
	var id int32
	var key []byte
	var hidden bool
	other := map[int32]bool{}
	tag, err := pgx.ForEachRow(rows, []any{&id, &key, &hidden}, func() error {
		ids[id], other[id] = string(key), hidden
		return nil
	})
	if err != nil {
		return fmt.Errorf("name the points of batches: %w", err)
	}
	if int(tag.RowsAffected()) != len(ids) {
		return errBatch
	}
	for i := range batches {
		b := &batches[i]
		for n := range b.Points {
			b.Points[n].Key = ids[b.Points[n].Point.Key]
		}
		b.Points = slices.DeleteFunc(b.Points, func(p KeyedPoint) bool { return other[p.Point.Key] })
	}
	return nil
}

func (s *Store) rowsAfter(ctx context.Context, runID string, seq int64) ([]Batch, error) {
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
	return batches, nil
}
