package metric

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// querier can also send several statements at once.
type querier interface {
	pg.Querier
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

const beginSQL = `SELECT r.id, r.attempt, r.batch_seq, EXISTS (SELECT FROM metric_segment WHERE run_id = r.id),
	EXISTS (SELECT FROM metric_summary WHERE run_id = r.id), EXISTS (SELECT FROM metric_batch WHERE run_id = r.id),
	r.expired_at IS NOT NULL FROM run r WHERE r.id = ANY($1)`

// begin reads what the runs have. For a reading of the whole, it returns an Absent fault if the run's points are deleted. With the
// same round trip to the database, it reads the units of a run that is alone.
func begin(ctx context.Context, db querier, all []*reading) error {
	of := map[string]*reading{}
	for _, r := range all {
		of[r.runID] = r
	}
	batch := &pgx.Batch{}
	var retried []string
	batch.Queue(beginSQL, slices.Collect(maps.Keys(of))).Query(func(rows pgx.Rows) (err error) {
		retried, err = found(rows, db, of)
		return err
	})
	if only := all[0]; len(all) == 1 && only.axis == Steps && !only.whole {
		only.queueUnits(batch)
	}
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("load the position of the metrics: %w", err)
	}
	bounds, err := boundsOf(ctx, db, retried)
	for id, r := range of {
		shown := attempts{bounds: bounds[id], only: r.store.attempt}
		r.plots.each(func(p *plot) { p.attempts = shown })
	}
	return err
}

// found reads the rows of beginSQL into the readings. It returns the runs whose attempts may hide points.
func found(rows pgx.Rows, db querier, of map[string]*reading) (retried []string, err error) {
	var id string
	var at reading
	var expired bool
	var last int32
	tag, err := pgx.ForEachRow(rows, []any{&id, &last, &at.last, &at.blocks, &at.folded, &at.rows, &expired}, func() error {
		r := of[id]
		if r.whole && expired {
			return fault.New(fault.Absent, "metrics_deleted", "the metrics of run %s were deleted during the export, or before it", id)
		}
		if last > 1 && r.store.attempt == 0 {
			retried = append(retried, id)
		}
		r.db, r.last, r.blocks, r.folded, r.rows = db, at.last, at.blocks, at.folded && r.axis == Steps, at.rows
		return nil
	})
	if err == nil && tag.RowsAffected() < int64(len(of)) {
		err = pgx.ErrNoRows
	}
	return retried, err
}

// units are the summaries of the plots' keys in the window, and the blocks in the window that have no summary, sorted by key and
// by step.
type units struct {
	summaries, loose []head
}

const (
	summariesSQL = `SELECT key, first_seq, last_seq, attempt, low_step, high_step, points, least, most, data FROM metric_summary
		WHERE run_id = $1 AND level = 0 AND key = ANY($2) AND high_step >= $3 AND low_step <= $4 ORDER BY key, first_seq`
	// With OFFSET 0, Postgres does not read all blocks of the run in the order of their steps.
	looseSQL = `SELECT * FROM (SELECT ` + headColumns + ` FROM metric_block b WHERE b.run_id = $1 AND b.key = ANY($2) AND b.high_step >= $3
		AND b.low_step <= $4 AND b.first_seq > (SELECT coalesce(max(last_seq), -1) FROM metric_summary WHERE run_id = $1 AND level = 0 AND key = ANY($2))
		OFFSET 0) b ORDER BY b.key, b.low_step, b.first_seq, b.part LIMIT $5`
)

// queueUnits adds the statements that read the units to a batch: at most one block more than a reading may hold.
func (r *reading) queueUnits(batch *pgx.Batch) {
	r.units = &units{}
	h := head{super: true}
	batch.Queue(summariesSQL, r.runID, r.keys, r.from, r.to).Query(func(rows pgx.Rows) error {
		into := []any{&h.key, &h.first, &h.last, &h.attempt, &h.lowStep, &h.highStep, &h.points, &h.least, &h.most, &h.whole}
		_, err := pgx.ForEachRow(rows, into, func() error {
			r.units.summaries = append(r.units.summaries, h)
			return nil
		})
		return err
	})
	batch.Queue(looseSQL, r.runID, r.keys, r.from, r.to, r.store.clean+1).Query(func(rows pgx.Rows) error {
		return eachHead(rows, func(h head) { r.units.loose = append(r.units.loose, h) })
	})
}

// fetchUnits reads the units unless begin has.
func (r *reading) fetchUnits(ctx context.Context) error {
	if r.units != nil {
		return nil
	}
	batch := &pgx.Batch{}
	r.queueUnits(batch)
	if err := r.db.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("read the summaries of metrics: %w", err)
	}
	return nil
}

// fetchHeads reads the blocks of several runs, unless there are too many.
func fetchHeads(ctx context.Context, db pg.Querier, all []*reading) error {
	var at []*reading
	var runs []string
	var keys []int32
	for _, r := range all {
		if len(all) == 1 || !r.blocks || r.folded {
			continue
		}
		for _, key := range r.keys {
			at, runs, keys = append(at, r), append(runs, r.runID), append(keys, key)
		}
	}
	if len(at) == 0 {
		return nil
	}
	most := at[0].store.clean
	rows, err := db.Query(ctx, `SELECT i.n, `+headColumns+` FROM unnest($1::text[], $2::int[]) WITH ORDINALITY i(r, k, n)
		JOIN metric_block b ON b.run_id = i.r AND b.key = i.k AND b.high_step >= $3 AND b.low_step <= $4 ORDER BY i.n, b.low_step LIMIT $5`,
		runs, keys, at[0].from, at[0].to, most+1)
	if err != nil {
		return fmt.Errorf("read the blocks of several runs: %w", err)
	}
	var n int64
	var h head
	into := []any{&n, &h.first, &h.key, &h.part, &h.attempt, &h.lowStep, &h.highStep, &h.lowTime, &h.highTime, &h.points, &h.whole}
	tag, err := pgx.ForEachRow(rows, into, func() error {
		at[n-1].unsorted = append(at[n-1].unsorted, h)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the blocks of several runs: %w", err)
	}
	for _, r := range at {
		if r.fetched = tag.RowsAffected() <= int64(most); !r.fetched {
			r.unsorted = nil
		}
	}
	return nil
}
