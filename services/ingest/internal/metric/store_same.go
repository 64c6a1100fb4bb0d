package metric

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// place identifies a value of an attempt.
type place struct {
	key  int32
	step int64
	bits uint64
}

func placeOf(key int32, step int64, value float64) place {
	if math.IsNaN(value) {
		value = math.NaN() // all of them are equal
	}
	return place{key, step, math.Float64bits(value)}
}

// missing are the points that Has has not found yet, and the range of their steps.
type missing struct {
	places    map[place]bool
	low, high int64
}

func (m *missing) found(p Point) { delete(m.places, placeOf(p.Key, p.Step, p.Value)) }

// Has reports whether the rank of an attempt has reported all points of a request, with the same values. Their times may
// differ. It returns false for a request without points. Has reads the run's rows and blocks one after another, and waits
// like List while too many calls read.
func (s *Store) Has(ctx context.Context, runID string, attempt int32, c *decode.Columns) (bool, error) {
	if c.Len() == 0 {
		return false, nil
	}
	rank := new(int32)
	if c.Rank != nil {
		rank = c.Rank
	}
	ids, series, err := s.Showing(attempt, rank, 1).keys(ctx, runID, c.Names, request.Page{Limit: len(c.Names)})
	if err != nil || len(series) < len(c.Names) {
		return false, err
	}
	leave, err := s.gate.Enter(ctx, run.ReportReader(runID))
	if err != nil {
		return false, err
	}
	defer leave()
	m := wantedOf(c, ids, series)
	err = s.snapshot(ctx, func(ctx context.Context, db pgx.Tx) error { return m.look(ctx, db, runID, attempt, ids) })
	return len(m.places) == 0, err
}

func wantedOf(c *decode.Columns, ids []int32, series []Series) *missing {
	byName := make(map[string]int32, len(ids))
	for i := range series {
		byName[series[i].Key] = ids[i]
	}
	m := &missing{places: make(map[place]bool, c.Len()), low: slices.Min(c.Step), high: slices.Max(c.Step)}
	for i, key := range c.Key {
		m.places[placeOf(byName[c.Names[key]], c.Step[i], c.Value[i])] = true
	}
	return m
}

// look removes the stored points of an attempt from m.
func (m *missing) look(ctx context.Context, db pg.Querier, runID string, attempt int32, ids []int32) error {
	has := func(key int32) bool { return len(m.places) > 0 && slices.Contains(ids, key) }
	visit := func(of int32, p Point) {
		if of == attempt {
			m.found(p)
		}
	}
	if err := scan(ctx, has, visit, db, runID, math.MaxInt64); err != nil || len(m.places) == 0 {
		return err
	}
	rows, err := db.Query(ctx, `SELECT key, data FROM metric_block WHERE run_id = $1 AND key = ANY($2) AND attempt = $3
		AND low_step <= $5 AND high_step >= $4 ORDER BY first_seq, key, part`, runID, ids, attempt, m.low, m.high)
	if err != nil {
		return fmt.Errorf("look for points in blocks: %w", err)
	}
	var key int32
	var data pgtype.DriverBytes
	var points []entry
	_, err = pgx.ForEachRow(rows, []any{&key, &data}, func() error {
		if points, err = unpackBlock(data, points); err != nil {
			return err
		}
		for _, e := range points {
			m.found(Point{Key: key, Step: e.Step, Value: e.Value})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for points in blocks: %w", err)
	}
	return nil
}
