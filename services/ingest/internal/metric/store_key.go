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
//
// Of a series that is older than ranks it is not known whose it is. The lowest rank that has reported its key since
// continues it, so that readers, who see the lowest rank of a key, see one series. A rank that loses the series to
// a lower one begins a series of its own.
func (k *Keys) resolve(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run, rank int32, names []string) ([]int32, error) {
	d, err := k.known(ctx, tx, r)
	if err != nil {
		return nil, err
	}
	fresh, taken, more := d.missing(rank, names)
	if more > 0 && d.counts[rank]+d.counts[unknownRank]+more > MaxKeys {
		return nil, groupcommit.Refuse(fault.New(fault.Refused, "metric_keys", "metrics: a run has at most %d keys", MaxKeys))
	}
	if len(fresh) > 0 && int(r.Keys)+len(fresh) > MaxSeries {
		return nil, groupcommit.Refuse(fault.New(fault.Refused, "metric_keys", "metrics: the ranks of a run have at most %d keys together", MaxSeries))
	}
	if len(taken) > 0 {
		r.KeyMoves++
		d.take(rank, taken, r.KeyMoves)
		batch.Queue(`UPDATE metric_key SET rank = $3, origin = 'taken' WHERE run_id = $1 AND id = ANY($2)`, r.ID, taken, rank)
	}
	if len(fresh) > 0 {
		added, texts := make([]int32, len(fresh)), make([][]byte, len(fresh))
		for i, name := range fresh {
			r.Keys++
			added[i], texts[i] = r.Keys, []byte(name.key)
		}
		d.add(fresh)
		batch.Queue(`INSERT INTO metric_key (run_id, id, key, rank, origin) SELECT $1, unnest($2::int[]), unnest($3::bytea[]), $4, 'own'`,
			r.ID, added, texts, rank)
	}
	ids := make([]int32, len(names))
	for i, name := range names {
		ids[i] = d.ids[seriesName{rank, name}]
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

// take gives older series to a rank. moves is the number of such changes of the run so far.
func (w *working) take(rank int32, ids []int32, moves int32) {
	if !w.own {
		w.dictionary, w.own = w.clone(), true
	}
	w.moves = moves
	for _, id := range ids {
		name := &w.names[id-1]
		delete(w.ids, *name)
		w.counts[name.rank]--
		name.rank = rank
		w.ids[*name] = id
		w.counts[rank]++
	}
}

// known returns the run's keys, including the keys that this group added. When the group is committed, the result
// replaces the cached keys if it differs.
func (k *Keys) known(ctx context.Context, tx pgx.Tx, r *groupcommit.Run) (*working, error) {
	if d, ok := r.Memo[memo{}].(*working); ok {
		return d, nil
	}
	d := &working{dictionary: k.get(r.ID)}
	if len(d.names) > int(r.Keys) || d.moves != r.KeyMoves {
		// The run's row was deleted and created again, or another replica has changed the ranks of series.
		d = &working{newDictionary(), true}
		d.moves = r.KeyMoves
	}
	if len(d.names) < int(r.Keys) {
		more, older, err := loadKeys(ctx, tx, r.ID, int32(len(d.names)), MaxSeries)
		if err != nil {
			return nil, err
		}
		d.add(more)
		for _, id := range older {
			d.older[d.names[id-1].key] = id
		}
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
// id. older are the ids of those that are older than ranks. A key of another rank than 0 that has the origin 'before' was
// added by a version that knew ranks but not origins. All keys of its run then have the rank that is stored.
func loadKeys(ctx context.Context, q pg.Querier, runID string, after int32, limit int) (keys []seriesName, older []int32, err error) {
	rows, err := q.Query(ctx, `SELECT id, rank, key, CASE WHEN origin = 'before' AND EXISTS (SELECT FROM metric_key
		WHERE run_id = $1 AND rank > 0 AND origin = 'before') THEN 'own' ELSE origin END
		FROM metric_key WHERE run_id = $1 AND id > $2 ORDER BY id LIMIT $3`, runID, after, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("load metric keys: %w", err)
	}
	var id, rank int32
	var key []byte
	var origin string
	_, err = pgx.ForEachRow(rows, []any{&id, &rank, &key, &origin}, func() error {
		if origin == "before" {
			rank = unknownRank
		}
		if origin == "taken" || rank == unknownRank {
			older = append(older, id)
		}
		keys = append(keys, seriesName{rank, string(key)})
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("load metric keys: %w", err)
	}
	return slices.Clip(keys), older, nil
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

// unknownRank is the rank of a series that is older than ranks, and whose key no rank has reported since.
const unknownRank = -1

// dictionary holds the keys of a run. The key with id i is names[i-1]. counts holds the number of keys of each rank. A
// dictionary that is or was in the cache never changes.
type dictionary struct {
	names  []seriesName
	ids    map[seriesName]int32
	counts map[int32]int
	older  map[string]int32 // the ids of the series that are older than ranks
	moves  int32            // how often the ranks of such series have changed
}

func newDictionary() *dictionary {
	return &dictionary{ids: map[seriesName]int32{}, counts: map[int32]int{}, older: map[string]int32{}}
}

// missing returns what a rank that reports names lacks: the names for which it needs a new series, and the ids of the older
// series that it takes. more is the number of keys by which the known ones of the rank and of unknown ranks grow.
func (d *dictionary) missing(rank int32, names []string) (fresh []seriesName, taken []int32, more int) {
	for _, name := range names {
		if _, ok := d.ids[seriesName{rank, name}]; ok {
			continue
		}
		id, older := d.older[name]
		switch {
		case !older || d.names[id-1].rank >= 0 && d.names[id-1].rank < rank:
			fresh = append(fresh, seriesName{rank, name})
			more++
		case d.names[id-1].rank > rank:
			more++
			fallthrough
		default:
			taken = append(taken, id)
		}
	}
	return fresh, taken, more
}

func (d *dictionary) add(names []seriesName) {
	for _, name := range names {
		d.names = append(d.names, name)
		d.ids[name] = int32(len(d.names))
		d.counts[name.rank]++
	}
}

func (d *dictionary) clone() *dictionary {
	return &dictionary{
		names: slices.Clone(d.names), ids: maps.Clone(d.ids), counts: maps.Clone(d.counts),
		older: maps.Clone(d.older), moves: d.moves,
	}
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
