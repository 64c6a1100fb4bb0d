package metric

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// summary is a copy of the summaries of a run, as the jobs service keeps it.
type summary struct {
	Known
	keys map[string]Stats
}

// again makes the copy as a whole.
func (c *summary) again(t *testing.T, store *Store) {
	t.Helper()
	shown, err := store.Shown(t.Context(), c.RunID)
	require.NoError(t, err)
	charts, rows, more, err := store.Summaries(t.Context(), c.RunID, 100)
	require.NoError(t, err)
	require.False(t, more)
	c.Rows, c.Shown, c.keys = rows, shown, map[string]Stats{}
	for _, one := range charts {
		c.keys[one.Key] = one.Stats
	}
}

// merge adds a delta to the copy and reports whether it could.
func (c *summary) merge(d *Delta) bool {
	for _, one := range d.Keys {
		if s, ok := c.keys[one.Key]; !ok || s.Count > 0 && one.FirstStep <= s.LastStep {
			return false
		}
	}
	for _, one := range d.Keys {
		s := c.keys[one.Key]
		s.merge(&one.Stats, Steps)
		c.keys[one.Key] = s
	}
	c.Rows, c.Shown = d.Rows, d.Shown
	return !d.Whole
}

// text returns what the copy shows.
func (c *summary) text() (out []string) {
	for key, s := range c.keys {
		if s.Count > 0 {
			out = append(out, fmt.Sprint(key, " ", s.Last.Step, " ", s.Last.Value, " ", s.Low.Value, " ", s.High.Value, " ", s.Numbers()))
		}
	}
	slices.Sort(out)
	return out
}

// A copy of the summaries that is continued by deltas is the same as one that is made as a whole, whatever is reported: new keys,
// late points, other ranks, newer attempts, and rows that the compactor moves.
func TestStore_Deltas_continueSummaries(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(61, 62))
	b := open(t)
	store := NewStore(b.pool, run.NewGate())
	kept := &summary{Known: Known{RunID: "run_1"}, keys: map[string]Stats{}}
	attempt, step, keys := int32(1), 0, 1
	var continued, whole, none int
	for range 300 {
		for range draw.IntN(3) {
			var points []any
			for range 1 + draw.IntN(3) {
				step++
				for key := range keys {
					at := step
					if draw.IntN(60) == 0 {
						at -= draw.IntN(20) // late, or once more
					}
					value := any(draw.NormFloat64())
					if draw.IntN(10) == 0 {
						value = `"NaN"`
					}
					points = append(points, fmt.Sprint("key ", key), at, value)
				}
			}
			c := columns(points...)
			if draw.IntN(8) == 0 {
				c.Rank = new(int32(draw.IntN(3)))
			}
			require.NoError(t, b.put(attempt, c))
		}
		switch draw.IntN(40) {
		case 0:
			keys++
		case 1:
			attempt++
			step -= draw.IntN(10)
		case 2:
			b.moveRows()
		}
		deltas, err := store.Deltas(t.Context(), []Known{{RunID: "none", Rows: 3}, kept.Known})
		require.NoError(t, err)
		switch {
		case len(deltas) == 0:
			none++
		case !deltas[0].Whole && kept.merge(&deltas[0]):
			continued++
		default:
			whole++
			kept.again(t, store)
		}
		fresh := &summary{Known: Known{RunID: "run_1"}}
		fresh.again(t, store)
		require.Equal(t, fresh.text(), kept.text())
		require.Equal(t, fresh.Known, kept.Known)
	}
	require.Greater(t, continued, 80, "most copies are continued: %d of %d, and %d had nothing new", continued, continued+whole, none)
	require.Greater(t, whole, 20)
	require.Greater(t, none, 30)
}

// moveRows moves the run's rows into blocks, if there are any.
func (b *harness) moveRows() {
	b.t.Helper()
	var rows int
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM metric_batch`).Scan(&rows))
	if rows > 0 {
		b.move("run_1", math.MaxInt64)
	}
}

// A run that has reported very much since is not read row by row.
func TestStore_Deltas_manyRows(t *testing.T) {
	t.Parallel()
	b := open(t)
	store := NewStore(b.pool, run.NewGate())
	put := func(from, rows int) {
		for i := range rows {
			_, err := b.store.Store(t.Context(), groupcommit.Item{RunID: "run_1", Attempt: 1, Write: Write(b.keys, columns("a", from+i, 1.0))})
			require.NoError(t, err)
		}
	}
	put(0, 1)
	kept := &summary{Known: Known{RunID: "run_1"}}
	kept.again(t, store)
	put(1, maxDeltaRows)
	for _, want := range []bool{false, true} {
		deltas, err := store.Deltas(t.Context(), []Known{kept.Known})
		require.NoError(t, err)
		require.Equal(t, want, deltas[0].Whole)
		require.Equal(t, want, len(deltas[0].Keys) == 0)
		require.EqualValues(t, deltas[0].Rows, deltas[0].Position)
		put(1+maxDeltaRows, 1)
	}
	b.exec(`UPDATE run SET expired_at = now()`)
	deltas, err := store.Deltas(t.Context(), []Known{kept.Known})
	require.NoError(t, err)
	require.Empty(t, deltas, "the data of the run is deleted")
}
