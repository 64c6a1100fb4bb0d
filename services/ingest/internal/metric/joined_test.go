package metric

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Joined returns all points that readers see, or an error, but never a part of them.
func TestStore_Joined_returnsAllPoints(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(71, 72))
	b := open(t)
	d := &drawn{id: "joined", keys: [2]reports{drawReports(draw, 900, 0.1), drawReports(draw, 700, 0.1)}}
	d.store(b, draw)
	store := NewStore(b.pool, run.NewGate())
	page := request.Page{Limit: 1}
	for range 3 {
		series, over, more, err := store.Joined(t.Context(), d.id, nil, "b", page)
		require.NoError(t, err)
		require.True(t, more)
		require.Len(t, series, 1)
		for k, got := range [][]Seen{series[0].Points, over} {
			want := d.seenIn(k, All(Steps))
			require.Len(t, got, len(want))
			for i := range want {
				sameSeen(t, want[i], got[i])
			}
		}
		b.compact(d.id, draw, false)
	}
	_, _, _, err := store.Joined(t.Context(), d.id, []string{"a"}, "none", page)
	require.True(t, fault.HasCode(err, "chart_axis") && fault.Is(err, fault.Refused), "%v", err)
	_, _, _, err = store.Showing(0, new(int32(7)), 1).Joined(t.Context(), d.id, []string{"a"}, "b", page)
	require.ErrorContains(t, err, `rank 7 of the run has no metric "b"`)
	store.joined = 2 * (len(d.seenIn(0, All(Steps))) - 1)
	_, _, _, err = store.Joined(t.Context(), d.id, []string{"a"}, "b", page)
	require.True(t, fault.HasCode(err, "chart_points") && fault.Is(err, fault.Refused), "%v", err)
	series, _, _, err := store.Joined(t.Context(), d.id, []string{"none"}, "b", page)
	require.NoError(t, err)
	require.Empty(t, series)
}
