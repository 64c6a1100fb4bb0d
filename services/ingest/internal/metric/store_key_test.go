package metric

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
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
