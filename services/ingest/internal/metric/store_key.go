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
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

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

// working holds the keys of a run while a group is stored: the cached dictionary, or a copy of it from the first change on.
type working struct {
	*dictionary

	own bool // the dictionary is a copy
}

func (w *working) add(names []seriesName) {
	if !w.own {
		w.dictionary, w.own = w.clone(), true
	}
	w.dictionary.add(names)
}

// known returns the run's keys, including the keys that this group added. When the group is committed, the result
// replaces the cached keys if it differs.
func (k *Keys) known(ctx context.Context, tx pgx.Tx, r *groupcommit.Run) (*working, error) {
	if d, ok := r.Memo[memo{}].(*working); ok {
		return d, nil
	}
	d := &working{dictionary: k.get(r.ID)}
	if len(d.names) > int(r.Keys) {
		d = &working{newDictionary(), true} // the run's row was deleted and created again
	}
	if len(d.names) < int(r.Keys) {
		more, err := loadKeys(ctx, tx, r.ID, int32(len(d.names)), MaxSeries)
		if err != nil {
			return nil, err
		}
		d.add(more)
	}
	r.Memo[memo{}] = d
	r.Committed(func() {
		if d.own {
			k.put(r.ID, d.dictionary)
		}
	})
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
	mu    sync.Mutex
	runs  map[string]*dictionary
	names int // of all runs together
}

// NewKeys returns an empty cache.
func NewKeys() *Keys { return &Keys{runs: map[string]*dictionary{}} }

// seriesName identifies a series of a run: the rank of the process that reports it, and its key.
type seriesName struct {
	rank int32
	key  string
}

// dictionary holds the keys of a run. The key with id i is names[i-1]. counts holds the number of keys of each rank. A
// dictionary that is or was in the cache never changes.
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

func (d *dictionary) clone() *dictionary {
	return &dictionary{names: slices.Clone(d.names), ids: maps.Clone(d.ids), counts: maps.Clone(d.counts)}
}

// maxRemembered is the maximum number of runs in the cache, and maxNames that of the keys of these runs together. A key
// takes about 150 bytes.
const (
	maxRemembered = 1024
	maxNames      = 1_000_000
)

// get returns the run's dictionary, which the caller must not change. It is empty if the run is not in the cache.
func (k *Keys) get(runID string) *dictionary {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.runs[runID]; d != nil {
		return d
	}
	return newDictionary()
}

// put caches a run's dictionary, which from now on must not change. It removes other runs if the cache is full: their keys
// are loaded again at their next report.
func (k *Keys) put(runID string, d *dictionary) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(runID)
	for other := range k.runs {
		if len(k.runs) < maxRemembered && k.names+len(d.names) <= maxNames {
			break
		}
		k.remove(other)
	}
	k.runs[runID] = d
	k.names += len(d.names)
}

func (k *Keys) remove(runID string) {
	if d := k.runs[runID]; d != nil {
		k.names -= len(d.names)
		delete(k.runs, runID)
	}
}
