package identity_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rankSum returns the two-sided p-value of the Mann-Whitney test, whose null hypothesis is that both
// samples have the same distribution. It uses the normal approximation with the correction for ties, which
// needs samples of several dozen values.
func rankSum(a, b []time.Duration) float64 {
	type value struct {
		took time.Duration
		ofA  bool
	}
	var all []value
	for _, took := range a {
		all = append(all, value{took, true})
	}
	for _, took := range b {
		all = append(all, value{took, false})
	}
	slices.SortFunc(all, func(x, y value) int { return int(x.took - y.took) })
	var ranks, ties float64
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].took == all[i].took {
			j++
		}
		mean, n := float64(i+j+1)/2, float64(j-i)
		ties += n*n*n - n
		for ; i < j; i++ {
			if all[i].ofA {
				ranks += mean
			}
		}
	}
	na, nb := float64(len(a)), float64(len(b))
	n := na + nb
	u := ranks - na*(na+1)/2
	sigma := math.Sqrt(na * nb / 12 * (n + 1 - ties/(n*(n-1))))
	if sigma == 0 {
		return 1
	}
	z := math.Max(0, math.Abs(u-na*nb/2)-0.5) / sigma
	return math.Erfc(z / math.Sqrt2)
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// TestRankSum compares rankSum with examples that were calculated by hand.
func TestRankSum(t *testing.T) {
	t.Parallel()
	series := func(n int, of func(i int) int) (list []time.Duration) {
		for i := range n {
			list = append(list, time.Duration(of(i)))
		}
		return list
	}
	even, odd := series(100, func(i int) int { return 2 * i }), series(100, func(i int) int { return 2*i + 1 })
	require.Greater(t, rankSum(even, odd), 0.8, "interleaved samples")
	require.InDelta(t, rankSum(even, odd), rankSum(odd, even), 1e-9)
	require.InDelta(t, 1, rankSum(even, even), 1e-9)
	require.InDelta(t, 1, rankSum(series(50, func(int) int { return 7 }), series(50, func(int) int { return 7 })), 1e-9)
	late := series(100, func(i int) int { return 2*i + 60 })
	require.Less(t, rankSum(even, late), 1e-3)
	// 1..10 against 4..13, counted by hand: U = 24.5, with seven ties of two values.
	require.InDelta(t, 0.05812, rankSum(series(10, func(i int) int { return i + 1 }), series(10, func(i int) int { return i + 4 })), 1e-5)
	require.Equal(t, time.Duration(100), median(even))
}
