package metric

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
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

func insert(batch *pgx.Batch, r *groupcommit.Run, rank *int32, points []Point) {
	r.BatchSeq++
	if r.BatchSeq%hotEvery == 1 {
		batch.Queue(`INSERT INTO metric_hot (run_id, due) VALUES ($1, $2) ON CONFLICT DO NOTHING`, r.ID, r.Now)
	}
	batch.Queue(`INSERT INTO metric_batch (run_id, seq, attempt, rank, points, data, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		r.ID, r.BatchSeq, r.Attempt, rank, len(points), Pack(points), r.Now)
}

// resolve returns the ids of names and adds the names that are new. The caller holds the lock on the run. Ids have no
// gaps and never change, so the cached keys are complete if their number equals the number in the run's row. resolve
// refuses the names if the rank would then have more than MaxKeys keys, or the run more than MaxSeries.
func (k *Keys) resolve(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run, rank int32, names []string) ([]int32, error) {
	d, err := k.known(ctx, tx, r)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, len(names))
	fresh := 0
	for _, name := range names {
		if _, ok := d.ids[seriesName{rank, name}]; !ok {
			fresh++
		}
	}
	if d.counts[rank]+fresh > MaxKeys {
		return nil, groupcommit.Refuse(fault.New(fault.Refused, "metric_keys", "metrics: a run has at most %d keys", MaxKeys))
	}
	if fresh > 0 && int(r.Keys)+fresh > MaxSeries {
		return nil, groupcommit.Refuse(fault.New(fault.Refused, "metric_keys", "metrics: the ranks of a run have at most %d keys together", MaxSeries))
	}
	var added []int32
	for i, name := range names {
		if id, ok := d.ids[seriesName{rank, name}]; ok {
			ids[i] = id
			continue
		}
		r.Keys++
		ids[i] = r.Keys
		d.add([]seriesName{{rank, name}})
		added = append(added, r.Keys)
	}
	if len(added) > 0 {
		texts := make([][]byte, len(added))
		for i, id := range added {
			texts[i] = []byte(d.names[id-1].key)
		}
		batch.Queue(`INSERT INTO metric_key (run_id, id, key, rank) SELECT $1, unnest($2::int[]), unnest($3::bytea[]), $4`, r.ID, added, texts, rank)
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
		more, err := loadKeys(ctx, tx, r.ID, int32(len(d.names)), MaxSeries)
		if err != nil {
			return nil, err
		}
		d.add(more)
	}
	r.Memo[memo{}] = d
	r.Committed(func() { k.put(r.ID, d) })
	return d, nil
}

// loadKeys returns the first keys of a run whose ids are greater than the given one, at most limit of them, sorted by
// id.
func loadKeys(ctx context.Context, q pg.Querier, runID string, after int32, limit int) ([]seriesName, error) {
	rows, err := q.Query(ctx, `SELECT rank, key FROM metric_key WHERE run_id = $1 AND id > $2 ORDER BY id LIMIT $3`, runID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("load metric keys: %w", err)
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n seriesName, err error) {
		var key []byte
		err = row.Scan(&n.rank, &key)
		n.key = string(key)
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("load metric keys: %w", err)
	}
	return slices.Clip(keys), nil
}

// Keys caches the metric keys of runs that report, so that most requests need not load them.
type Keys struct {
	mu   sync.Mutex
	runs map[string]*dictionary
}

// NewKeys returns an empty cache.
func NewKeys() *Keys { return &Keys{runs: map[string]*dictionary{}} }

// seriesName identifies a series of a run: the rank of the process that reports it, and its key.
type seriesName struct {
	rank int32
	key  string
}

// dictionary holds the keys of a run. The key with id i is names[i-1]. counts holds the number of keys of each rank.
type dictionary struct {
	names  []seriesName
	ids    map[seriesName]int32
	counts map[int32]int
}

func newDictionary() *dictionary {
	return &dictionary{ids: map[seriesName]int32{}, counts: map[int32]int{}}
}

func (d *dictionary) add(names []seriesName) {
	for _, name := range names {
		d.names = append(d.names, name)
		d.ids[name] = int32(len(d.names))
		d.counts[name.rank]++
	}
}

// maxRemembered is the maximum number of runs in the cache.
const maxRemembered = 1024

// get returns a copy of the run's dictionary, which the caller may change. The copy is empty if the run is not in the
// cache.
func (k *Keys) get(runID string) *dictionary {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.runs[runID]
	if d == nil {
		return newDictionary()
	}
	return &dictionary{names: slices.Clone(d.names), ids: maps.Clone(d.ids), counts: maps.Clone(d.counts)}
}

func (k *Keys) put(runID string, d *dictionary) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.runs) >= maxRemembered && k.runs[runID] == nil {
		for other := range k.runs { // any run may be removed: its keys are loaded again at its next report
			delete(k.runs, other)
			break
		}
	}
	k.runs[runID] = d
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
