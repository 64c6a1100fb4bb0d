// Package identity tests an installation over the network against the specification's access rules: which credentials
// a route accepts, what each user may do, and which services may call each other. The rules are hand-written tables
// in testdata. The only code outside of test files compares samples of response times.
package identity

import (
	"math"
	"slices"
	"time"
)

// RankSum returns the two-sided p-value of the Mann-Whitney test, whose null hypothesis is that both
// samples have the same distribution. It uses the normal approximation with the correction for ties, which
// needs samples of several dozen values.
func RankSum(a, b []time.Duration) float64 {
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

// Median returns the middle value of a list, or the larger of the two middle values.
func Median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
