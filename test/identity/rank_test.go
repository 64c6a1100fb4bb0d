package identity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/identity"
)

// TestRankSum compares RankSum with examples that were calculated by hand.
func TestRankSum(t *testing.T) {
	t.Parallel()
	series := func(n int, of func(i int) int) (list []time.Duration) {
		for i := range n {
			list = append(list, time.Duration(of(i)))
		}
		return list
	}
	even, odd := series(100, func(i int) int { return 2 * i }), series(100, func(i int) int { return 2*i + 1 })
	require.Greater(t, identity.RankSum(even, odd), 0.8, "interleaved samples must not count as different")
	require.InDelta(t, identity.RankSum(even, odd), identity.RankSum(odd, even), 1e-9)
	require.InDelta(t, 1, identity.RankSum(even, even), 1e-9)
	require.InDelta(t, 1, identity.RankSum(series(50, func(int) int { return 7 }), series(50, func(int) int { return 7 })), 1e-9)
	late := series(100, func(i int) int { return 2*i + 60 })
	require.Less(t, identity.RankSum(even, late), 1e-3)
	// 1..10 against 4..13, counted by hand: U = 24.5, with seven ties of two values.
	require.InDelta(t, 0.05812, identity.RankSum(series(10, func(i int) int { return i + 1 }), series(10, func(i int) int { return i + 4 })), 1e-5)
	require.Equal(t, time.Duration(100), identity.Median(even))
}
