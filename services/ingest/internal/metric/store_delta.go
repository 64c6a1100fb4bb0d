package metric

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Known is what a caller knows of the summaries of a run: that its rows up to a number are in them.
type Known struct {
	RunID string
	Rows  int64
	// Shown identifies the series of the run and the points that attempts hide. The summaries can only be continued while it
	// stays the same.
	Shown string
}

// Delta is what a run has reported since its summaries were known.
type Delta struct {
	Known

	// Position is that of the run's progress.
	Position int64
	// Whole states that the summaries have to be made again, because the new points may replace or hide earlier ones, or because
	// there are too many of them.
	Whole bool
	// Keys are the series with new points, sorted by key: those that readers see without a rank. The points follow each other
	// in the order of their steps.
	Keys []Chart
}

// The maximum number of new rows of a run that are added to its summaries, and of the points of all deltas of a call.
const (
	maxDeltaRows   = 256
	maxDeltaPoints = 1 << 19
)

// shownSQL is the Shown of the run r. The points that attempts hide are a hash in it, because a run may have very many attempts.
const shownSQL = `r.key_count || '.' || r.key_moves || '.' || hashtextextended(coalesce((SELECT string_agg(a.attempt || ':' ||
	coalesce(a.hidden_from::text, ''), ',' ORDER BY a.attempt) FROM attempt_bound a WHERE a.run_id = r.id AND a.attempt > 1), ''), 0)`

const (
	newerSQL = `SELECT r.id, r.batch_seq, r.batch_seq + (SELECT count(*) FROM attempt_step a WHERE a.run_id = r.id), r.attempt, ` + shownSQL + `
		FROM unnest($1::text[], $2::bigint[]) k(id, rows) JOIN run r ON r.id = k.id
		WHERE r.batch_seq > k.rows AND r.expired_at IS NULL AND r.deleted_at IS NULL ORDER BY r.id`
	deltaSQL = `SELECT i.n, b.attempt, b.data FROM unnest($1::text[], $2::bigint[], $3::bigint[]) WITH ORDINALITY i(r, f, l, n)
		JOIN metric_batch b ON b.run_id = i.r AND b.seq > i.f AND b.seq <= i.l ORDER BY i.n, b.seq`
	deltaKeysSQL = `SELECT i.n, k.id, k.key FROM unnest($1::int[], $2::text[], $3::int[]) i(n, r, k) JOIN metric_key k ON k.run_id = i.r AND k.id = i.k
		WHERE NOT EXISTS (SELECT FROM metric_key o WHERE o.run_id = k.run_id AND o.key = k.key AND o.rank < k.rank)`
)

// Shown returns the Shown of a run. It must be read before the summaries.
func (s *Store) Shown(ctx context.Context, runID string) (shown string, err error) {
	err = s.pool.QueryRow(ctx, `SELECT `+shownSQL+` FROM run r WHERE r.id = $1`, runID).Scan(&shown)
	if err != nil {
		return "", fmt.Errorf("read which metrics of a run are shown: %w", err)
	}
	return shown, nil
}

// Deltas returns what those of the known runs have reported that have new rows, sorted by run. It reads only these rows, and
// only of runs whose series and hidden points are the same as before.
func (s *Store) Deltas(ctx context.Context, known []Known) (out []Delta, err error) {
	err = s.snapshot(ctx, func(ctx context.Context, db pgx.Tx) error {
		all, err := newer(ctx, db, known)
		if err != nil || len(all) == 0 {
			return err
		}
		if err := readDeltas(ctx, db, all); err != nil {
			return err
		}
		if err := nameDeltas(ctx, db, all); err != nil {
			return err
		}
		for _, d := range all {
			out = append(out, d.Delta)
		}
		return nil
	})
	return out, err
}

// delta collects the new points of a run.
type delta struct {
	Delta
	attempts

	from int64 // the rows before are known
	rows int64 // that were read
	keys map[int32]*Stats
}

// newer returns the runs with new rows.
func newer(ctx context.Context, db pg.Querier, known []Known) ([]*delta, error) {
	ids, positions, before := make([]string, len(known)), make([]int64, len(known)), make(map[string]Known, len(known))
	for i, k := range known {
		ids[i], positions[i], before[k.RunID] = k.RunID, k.Rows, k
	}
	rows, err := db.Query(ctx, newerSQL, ids, positions)
	if err != nil {
		return nil, fmt.Errorf("find the runs with new metrics: %w", err)
	}
	var all []*delta
	var retried []string
	var d delta
	var attempt int32
	_, err = pgx.ForEachRow(rows, []any{&d.RunID, &d.Rows, &d.Position, &attempt, &d.Shown}, func() error {
		one, k := d, before[d.RunID]
		one.from, one.keys = k.Rows, map[int32]*Stats{}
		one.Whole = k.Rows == 0 || k.Shown != one.Shown || one.Rows-one.from > maxDeltaRows
		all = append(all, &one)
		if attempt > 1 && !one.Whole {
			retried = append(retried, one.RunID)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the runs with new metrics: %w", err)
	}
	bounds, err := boundsOf(ctx, db, retried)
	for _, d := range all {
		d.bounds = bounds[d.RunID]
	}
	return all, err
}

// readDeltas adds the points of the new rows. A run is Whole if some of its rows have been moved into blocks.
func readDeltas(ctx context.Context, db pg.Querier, all []*delta) error {
	ids, from, last := make([]string, len(all)), make([]int64, len(all)), make([]int64, len(all))
	for i, d := range all {
		if ids[i], from[i], last[i] = d.RunID, d.from, d.Rows; d.Whole {
			from[i] = d.Rows
		}
	}
	rows, err := db.Query(ctx, deltaSQL, ids, from, last)
	if err != nil {
		return fmt.Errorf("read new metrics: %w", err)
	}
	var n int64
	var attempt int32
	var data pgtype.DriverBytes
	var points []Point
	total := 0
	_, err = pgx.ForEachRow(rows, []any{&n, &attempt, &data}, func() error {
		d := all[n-1]
		d.rows++
		if total > maxDeltaPoints {
			d.Whole = true
		}
		if d.Whole {
			return nil
		}
		if points, err = Unpack(data, points[:0], nil); err != nil {
			return err
		}
		total += len(points)
		for _, p := range points {
			d.add(attempt, p)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read new metrics: %w", err)
	}
	for _, d := range all {
		if d.Whole = d.Whole || d.rows < d.Rows-d.from; d.Whole {
			d.keys = nil
		}
	}
	return nil
}

// add adds a point, unless a newer attempt hides it. The run is Whole if the step is not higher than that of the last point of
// the series, which it may replace.
func (d *delta) add(attempt int32, p Point) {
	if d.hidden(attempt, p.Step) {
		return
	}
	s := d.keys[p.Key]
	if s == nil {
		s = &Stats{}
		d.keys[p.Key] = s
	}
	d.Whole = d.Whole || s.Count > 0 && p.Step <= s.LastStep
	s.add(Seen{Step: p.Step, Value: p.Value, Micros: p.Micros, Attempt: attempt}, Steps)
}

// nameDeltas adds the keys of the series that readers see without a rank.
func nameDeltas(ctx context.Context, db pg.Querier, all []*delta) error {
	var of, ids []int32
	var runs []string
	for n, d := range all {
		for _, id := range slices.Sorted(maps.Keys(d.keys)) {
			of, runs, ids = append(of, int32(n)), append(runs, d.RunID), append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.Query(ctx, deltaKeysSQL, of, runs, ids)
	if err != nil {
		return fmt.Errorf("read the keys of new metrics: %w", err)
	}
	var n, id int32
	var key []byte
	_, err = pgx.ForEachRow(rows, []any{&n, &id, &key}, func() error {
		all[n].Keys = append(all[n].Keys, Chart{Key: string(key), Stats: *all[n].keys[id]})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the keys of new metrics: %w", err)
	}
	for _, d := range all {
		slices.SortFunc(d.Keys, func(a, b Chart) int { return cmp.Compare(a.Key, b.Key) })
	}
	return nil
}

// Summaries returns the Stats of the first series of a run as charts, sorted by key, and the number of the last row that is in
// them. more reports whether there are further series.
func (s *Store) Summaries(ctx context.Context, runID string, limit int) (charts []Chart, rows int64, more bool, err error) {
	return s.chartsRead(ctx, runID, nil, All(Steps), 0, request.Page{Limit: limit})
}
