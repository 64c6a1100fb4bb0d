package metric

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// MaxHardwareSeries is the maximum number of hardware series of a run.
const MaxHardwareSeries = 10_000

type name struct{ node, gpu, key string }

// WriteHardware stores the hardware points of a request in one row. It refuses points with which the run would
// have more than MaxHardwareSeries series.
func WriteHardware(points []report.HardwarePoint) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		if len(points) == 0 {
			return nil
		}
		ids, err := series(ctx, tx, r.ID, points)
		if err != nil {
			return err
		}
		packed := make([]Point, len(points))
		first, last := points[0].At, points[0].At
		for i, p := range points {
			packed[i] = Point{Key: ids[name{p.Node, p.GPU, p.Key}], Value: p.Value, Micros: p.At.UnixMicro()}
			if p.At.Before(first) {
				first = p.At
			}
			if p.At.After(last) {
				last = p.At
			}
		}
		batch.Queue(`INSERT INTO hardware_batch (run_id, attempt, first_at, last_at, points, data, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			r.ID, r.Attempt, first, last, len(points), Pack(packed), r.Now)
		return nil
	}
}

// series returns the ids of the series to which points belong, and adds the series that are new. The caller holds the
// lock on the run. series refuses points with which the run would have more than MaxHardwareSeries series.
func series(ctx context.Context, tx pgx.Tx, runID string, points []report.HardwarePoint) (map[name]int32, error) {
	ids := map[name]int32{}
	var nodes, gpus, keys []string
	for _, p := range points {
		n := name{p.Node, p.GPU, p.Key}
		if _, known := ids[n]; !known {
			ids[n] = 0
			nodes, gpus, keys = append(nodes, p.Node), append(gpus, p.GPU), append(keys, p.Key)
		}
	}
	rows, err := tx.Query(ctx, `SELECT s.id, n.node, n.gpu, n.key, (SELECT coalesce(max(id), 0) FROM hardware_series WHERE run_id = $1)
		FROM unnest($2::text[], $3::text[], $4::text[]) n(node, gpu, key)
		LEFT JOIN hardware_series s ON s.run_id = $1 AND s.node = n.node AND s.gpu = n.gpu AND s.key = n.key`, runID, nodes, gpus, keys)
	if err != nil {
		return nil, fmt.Errorf("find hardware series: %w", err)
	}
	var id *int32
	var n name
	var last int32
	var fresh []name
	_, err = pgx.ForEachRow(rows, []any{&id, &n.node, &n.gpu, &n.key, &last}, func() error {
		if id == nil {
			fresh = append(fresh, n)
		} else {
			ids[n] = *id
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find hardware series: %w", err)
	}
	if int(last)+len(fresh) > MaxHardwareSeries {
		return nil, groupcommit.Refuse(fault.New(fault.Refused, "hardware_series", "hardware: a run has at most %d series", MaxHardwareSeries))
	}
	return ids, add(ctx, tx, runID, fresh, last, ids)
}

// add stores new series, whose ids follow last, and adds them to ids.
func add(ctx context.Context, tx pgx.Tx, runID string, fresh []name, last int32, ids map[name]int32) error {
	if len(fresh) == 0 {
		return nil
	}
	var added []int32
	var nodes, gpus, keys []string
	for _, n := range fresh {
		last++
		ids[n] = last
		added, nodes, gpus, keys = append(added, last), append(nodes, n.node), append(gpus, n.gpu), append(keys, n.key)
	}
	_, err := tx.Exec(ctx, `INSERT INTO hardware_series (run_id, id, node, gpu, key)
		SELECT $1, * FROM unnest($2::int[], $3::text[], $4::text[], $5::text[])`, runID, added, nodes, gpus, keys)
	if err != nil {
		return fmt.Errorf("add hardware series: %w", err)
	}
	return nil
}

// HardwarePoint is one sample of a series.
type HardwarePoint struct {
	At      time.Time
	Value   float64
	Attempt int32
}

// HardwareSeries holds the samples of one metric of one device, sorted by time. Node and GPU are empty if the report
// did not name them.
type HardwareSeries struct {
	Node, GPU, Key string
	Points         []HardwarePoint
}
