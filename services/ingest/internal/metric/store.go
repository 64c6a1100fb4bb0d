package metric

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// MaxKeys is the maximum number of metric keys that a rank of a run reports, and MaxSeries that of all ranks together.
const (
	MaxKeys   = 10_000
	MaxSeries = 100_000
)

// maxBatchText is the approximate maximum size, in bytes, that the points of a row and the names of their keys have in
// a message. It ensures that the points of a row fit into one gRPC message.
const maxBatchText = 2 << 20

// pointText is the approximate size of a point in a message, in bytes, without its key.
const pointText = 48

// Write stores the points of a request in one row, or in several rows if the points exceed maxBatchText.
func Write(keys *Keys, c *decode.Columns) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		if c.Len() == 0 {
			return nil
		}
		var rank int32
		if c.Rank != nil {
			rank = *c.Rank
		}
		ids, err := keys.resolve(ctx, tx, batch, r, rank, c.Names)
		if err != nil {
			return err
		}
		r.ReportSteps(batch, slices.Min(c.Step))
		points := make([]Point, 0, c.Len())
		text := 0
		for i := range c.Key {
			points = append(points, Point{Key: ids[c.Key[i]], Step: c.Step[i], Value: c.Value[i], Micros: c.Micros[i]})
			if text += len(c.Names[c.Key[i]]) + pointText; text > maxBatchText || i == c.Len()-1 {
				insert(batch, r, c.Rank, points)
				points, text = points[len(points):], 0
			}
		}
		r.Fresh = true
		return nil
	}
}

// hotEvery is the number of rows after which a run is listed again for the compactor, which forgets closed runs.
const hotEvery = 256

const insertSQL = `INSERT INTO metric_batch (run_id, seq, attempt, rank, points, data, created_at)
	SELECT * FROM unnest($1::text[], $2::bigint[], $3::int[], $4::int[], $5::int[], $6::bytea[], $7::timestamptz[])`

func insert(batch *pgx.Batch, r *groupcommit.Run, rank *int32, points []Point) {
	r.BatchSeq++
	if r.BatchSeq%hotEvery == 1 {
		batch.Queue(`INSERT INTO metric_hot (run_id, due) VALUES ($1, $2) ON CONFLICT DO NOTHING`, r.ID, r.Now)
	}
	r.Insert(insertSQL, r.ID, r.BatchSeq, r.Attempt, rank, len(points), Pack(points), r.Now)
}

// runKeys are keys of a run.
type runKeys struct {
	ids    []int32
	series []Series
}

// keysOf returns those of the given keys that each run has, sorted by key. A key is that of the lowest rank that has it,
// unless the store shows one rank.
func (s *Store) keysOf(ctx context.Context, runs, keys []string) (map[string]*runKeys, error) {
	only := make([][]byte, len(keys))
	for i, key := range keys {
		only[i] = []byte(key)
	}
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT ON (run_id, key) run_id, id, key, rank FROM metric_key
		WHERE run_id = ANY($1) AND key = ANY($2) AND ($3::int IS NULL OR rank = $3) ORDER BY run_id, key, rank`, runs, only, s.rank)
	if err != nil {
		return nil, fmt.Errorf("list the metric keys of runs: %w", err)
	}
	found := map[string]*runKeys{}
	var runID string
	var id int32
	var key []byte
	var rank int32
	_, err = pgx.ForEachRow(rows, []any{&runID, &id, &key, &rank}, func() error {
		if found[runID] == nil {
			found[runID] = &runKeys{}
		}
		of := found[runID]
		of.ids, of.series = append(of.ids, id), append(of.series, Series{Key: string(key), Rank: rank})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the metric keys of runs: %w", err)
	}
	return found, nil
}

// MaxHardwareSeries is the maximum number of hardware series of a run.
const MaxHardwareSeries = 10_000

type name struct{ node, gpu, key string }

// WriteHardware stores the hardware points of a request in one row. It refuses the points if the run would then have
// more than MaxHardwareSeries series.
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
// lock on the run. series refuses the points if the run would then have more than MaxHardwareSeries series.
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

// add stores new series and adds them to ids. Their ids follow the id last.
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
