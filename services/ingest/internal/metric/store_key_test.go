package metric

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

func dictionaryOf(n int) *dictionary {
	d := newDictionary()
	for i := range n {
		d.add([]seriesName{{0, fmt.Sprintf("key %d", i)}})
	}
	return d
}

func TestKeys_put_isBounded(t *testing.T) {
	t.Parallel()
	k := NewKeys()
	for i := range maxRemembered + 50 {
		k.put(fmt.Sprintf("run_%d", i), dictionaryOf(1))
		require.LessOrEqual(t, len(k.runs), maxRemembered)
	}
	require.Len(t, k.get(fmt.Sprintf("run_%d", maxRemembered+49)).names, 1, "the run that was stored last is cached")
}

// A run may have very many keys, so their total is bounded too.
func TestKeys_put_boundsNames(t *testing.T) {
	t.Parallel()
	k, large := NewKeys(), dictionaryOf(MaxSeries)
	for i := range 2 * maxNames / MaxSeries {
		id := fmt.Sprintf("run_%d", i)
		k.put(id, large)
		k.put(id, large) // replaces itself
		require.Same(t, large, k.get(id), "the run that was stored last is cached")
		names := 0
		for _, d := range k.runs {
			names += len(d.names)
		}
		require.LessOrEqual(t, names, maxNames)
		require.Len(t, k.runs, min(i+1, maxNames/MaxSeries))
	}
}

// The keys of a run are copied only for a request with new ones: the run's row is locked meanwhile.
func TestKeys_resolve_copiesOnlyForNewKeys(t *testing.T) {
	t.Parallel()
	k, cached := NewKeys(), dictionaryOf(2)
	k.put("run_1", cached)
	r := &groupcommit.Run{ID: "run_1", Keys: 2, Memo: map[any]any{}}
	resolve := func(names ...string) []int32 {
		ids, err := k.resolve(t.Context(), nil, &pgx.Batch{}, r, 0, names)
		require.NoError(t, err)
		return ids
	}
	require.Equal(t, []int32{2, 1}, resolve("key 1", "key 0"))
	d, err := k.known(t.Context(), nil, r)
	require.NoError(t, err)
	require.Same(t, cached, d.dictionary)
	require.Equal(t, []int32{3, 1}, resolve("new", "key 0"))
	require.Equal(t, []int32{4, 3}, resolve("newer", "new"))
	require.Len(t, cached.names, 2, "the cached keys must not change before the commit")
	require.Same(t, cached, k.get("run_1"))
	require.EqualValues(t, 4, r.Keys)
}

// ofRank returns the points as those of a rank.
func ofRank(rank int32, c *decode.Columns) *decode.Columns {
	c.Rank = &rank
	return c
}

// A run that reports while the server is upgraded to a version that knows ranks continues its series, also if another
// rank than 0 reports.
func TestWrite_continuesSeriesOlderThanRanks(t *testing.T) {
	t.Parallel()
	b := open(t)
	shown := func(rank int32) (points []string) {
		series, _, err := NewStore(b.pool, run.NewGate()).Showing(0, &rank, 1).List(t.Context(), "run_1", []string{"loss"}, request.Page{Limit: 1})
		require.NoError(t, err)
		for _, s := range series {
			for _, p := range s.Points {
				points = append(points, fmt.Sprintf("%d %v", p.Step, p.Value))
			}
		}
		return points
	}
	require.NoError(t, b.put(1, columns("loss", 1, 1, "lr", 1, 1)))
	b.exec(`UPDATE metric_key SET rank = DEFAULT, origin = DEFAULT`)
	mine, theirs := NewKeys(), NewKeys()
	b.keys = mine
	require.NoError(t, b.put(1, columns("other", 1, 1)))
	require.Equal(t, []string{"1 1"}, shown(0))
	require.NoError(t, b.put(1, ofRank(7, columns("loss", 2, 27))))
	b.keys = theirs
	require.NoError(t, b.put(2, ofRank(7, columns("loss", 3, 37, "lr", 3, 3, "new", 3, 3))))
	require.Equal(t, []string{"loss 1 1/1", "loss 2 27/1", "loss 3 37/2"}, b.allPoints("loss"))
	require.Equal(t, []string{"lr 1 1/1", "lr 3 3/2"}, b.allPoints("lr"))
	require.Equal(t, []string{"1 1", "2 27", "3 37"}, shown(7))
	require.Empty(t, shown(0))

	require.NoError(t, b.put(2, ofRank(9, columns("loss", 4, 49))))
	require.Equal(t, []string{"4 49"}, shown(9), "a higher rank does not take the series")
	b.keys = mine
	require.NoError(t, b.put(2, ofRank(3, columns("loss", 4, 43))))
	b.keys = theirs
	require.NoError(t, b.put(2, ofRank(7, columns("loss", 4, 47, "lr", 4, 4))), "the replica has the series as that of rank 7")
	require.Equal(t, []string{"loss 1 1/1", "loss 2 27/1", "loss 3 37/2", "loss 4 43/2"}, b.allPoints("loss"), "a lower rank takes the series")
	require.Equal(t, []string{"4 47"}, shown(7), "from then on, the points of the higher rank are apart")
	require.Equal(t, []string{"lr 1 1/1", "lr 3 3/2", "lr 4 4/2"}, b.allPoints("lr"))
	b.keys = NewKeys()
	require.NoError(t, b.put(2, columns("loss", 5, 50)))
	require.NoError(t, b.put(2, ofRank(3, columns("loss", 5, 53))))
	require.Equal(t, []string{"1 1", "2 27", "3 37", "4 43", "5 50"}, shown(0))
	require.Equal(t, []string{"5 53"}, shown(3))
}

// Keys of an unknown rank count as those of each rank, so that a run cannot have more than before.
func TestKeys_resolve_countsSeriesOlderThanRanks(t *testing.T) {
	t.Parallel()
	k, d := NewKeys(), newDictionary()
	names := make([]string, MaxKeys)
	for i := range names {
		names[i] = fmt.Sprintf("key %d", i)
		d.add([]seriesName{{unknownRank, names[i]}})
		d.older[names[i]] = int32(i + 1)
	}
	k.put("run_1", d)
	r := &groupcommit.Run{ID: "run_1", Keys: MaxKeys, Memo: map[any]any{}}
	resolve := func(rank int32, names ...string) error {
		_, err := k.resolve(t.Context(), nil, &pgx.Batch{}, r, rank, names)
		return err
	}
	require.True(t, fault.HasCode(resolve(7, "one more"), "metric_keys"))
	require.NoError(t, resolve(7, names...))
	require.True(t, fault.HasCode(resolve(7, "one more"), "metric_keys"))
	require.NoError(t, resolve(8, "one more"))
	require.NoError(t, resolve(0, names...))
	require.NoError(t, resolve(7, names...))
	require.EqualValues(t, 2*MaxKeys+1, r.Keys)
	require.EqualValues(t, 2, r.KeyMoves)
}
