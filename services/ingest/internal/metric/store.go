package metric

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

// MaxKeys is the maximum number of metric keys of a run.
const MaxKeys = 10_000

// maxBatchText is the approximate maximum size, in bytes, of a row's points in a message, with the names of their keys.
// It ensures that the points of a row fit into one gRPC message.
const maxBatchText = 2 << 20

// pointText is the approximate size of a point in a message, in bytes, without its key.
const pointText = 48

// Write stores the points of a request in one row, or in several rows if the points exceed maxBatchText.
func Write(keys *Keys, c *decode.Columns) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		if c.Len() == 0 {
			return nil
		}
		ids, err := keys.resolve(ctx, tx, batch, r, c.Names)
		if err != nil {
			return err
		}
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

func insert(batch *pgx.Batch, r *groupcommit.Run, rank *int32, points []Point) {
	r.BatchSeq++
	batch.Queue(`INSERT INTO metric_batch (run_id, seq, attempt, rank, points, data, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		r.ID, r.BatchSeq, r.Attempt, rank, len(points), Pack(points), r.Now)
}

// resolve returns the ids of names and adds the names that are new. The caller holds the lock on the run. Ids have no
// gaps and never change, so the cached keys are complete if their number equals the number in the run's row. resolve
// refuses names with which the run would have more than MaxKeys keys.
func (k *Keys) resolve(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run, names []string) ([]int32, error) {
	d, err := k.known(ctx, tx, r)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, len(names))
	fresh := 0
	for _, name := range names {
		if _, ok := d.ids[name]; !ok {
			fresh++
		}
	}
	if int(r.Keys)+fresh > MaxKeys {
		return nil, groupcommit.Refuse(fault.New(fault.Refused, "metric_keys", "metrics: a run has at most %d keys", MaxKeys))
	}
	var added []int32
	for i, name := range names {
		if id, ok := d.ids[name]; ok {
			ids[i] = id
			continue
		}
		r.Keys++
		ids[i] = r.Keys
		d.ids[name] = r.Keys
		d.names = append(d.names, name)
		added = append(added, r.Keys)
	}
	if len(added) > 0 {
		texts := make([][]byte, len(added))
		for i, id := range added {
			texts[i] = []byte(d.names[id-1])
		}
		batch.Queue(`INSERT INTO metric_key (run_id, id, key) SELECT $1, unnest($2::int[]), unnest($3::bytea[])`, r.ID, added, texts)
	}
	return ids, nil
}

type memo struct{}

// known returns the run's keys, including the keys that this group added. When the group is committed, the result
// replaces the cached keys.
func (k *Keys) known(ctx context.Context, tx pgx.Tx, r *groupcommit.Run) (*dictionary, error) {
	if d, ok := r.Memo[memo{}].(*dictionary); ok {
		return d, nil
	}
	d := k.get(r.ID)
	if len(d.names) > int(r.Keys) {
		d = newDictionary() // the run's row was deleted and created again
	}
	if len(d.names) < int(r.Keys) {
		more, err := loadKeys(ctx, tx, r.ID, int32(len(d.names)), MaxKeys)
		if err != nil {
			return nil, err
		}
		d.add(more)
	}
	r.Memo[memo{}] = d
	r.Committed(func() { k.put(r.ID, d) })
	return d, nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// loadKeys returns the first keys of a run whose ids are greater than after, at most limit of them, sorted by id.
func loadKeys(ctx context.Context, q querier, runID string, after int32, limit int) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT key FROM metric_key WHERE run_id = $1 AND id > $2 ORDER BY id LIMIT $3`, runID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("load metric keys: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("load metric keys: %w", err)
	}
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = string(key)
	}
	return slices.Clip(out), nil
}
