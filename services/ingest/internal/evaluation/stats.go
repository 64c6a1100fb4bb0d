package evaluation

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// mean returns the mean of values, which it adds in the order of the slice. stat.Mean adds them in an order that
// depends on their memory address, so equal slices may get different means. Compare counts equal means as ties.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// meanOf returns the mean of one value per task, with its standard error and interval. It returns nil if values is
// empty.
func meanOf(values []float64) *Mean {
	n := float64(len(values))
	if n == 0 {
		return nil
	}
	m := &Mean{Value: mean(values), Tasks: len(values)}
	if n > 1 {
		m.Stderr = new(stat.StdErr(stat.StdDev(values, nil), n))
		half := studentT(n-1) * *m.Stderr
		m.CI = &Interval{Low: m.Value - half, High: m.Value + half}
	}
	return m
}

// confidence is the upper quantile of a 95 % interval.
const confidence = 0.975

// chance returns pass@k of one task if c of its n rollouts passed.
func chance(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	fail := 1.0
	for i := n - c + 1; i <= n; i++ {
		fail *= 1 - float64(k)/float64(i)
	}
	return 1 - fail
}

// Distribution describes the distribution of values.
type Distribution struct {
	Mean, Min, P10, P50, P90, Max float64
	Std                           *float64 // nil for fewer than two values
	Bins                          []Bin
}

// Bin is one bin of a histogram. High is exclusive, except in the last bin.
type Bin struct {
	Low, High float64
	Count     int
}

const bins = 10

// distribution describes values in any order. It returns nil if values is empty.
func distribution(values []float64) *Distribution {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	d := &Distribution{
		Mean: mean(values), Min: sorted[0], Max: sorted[len(sorted)-1],
		P10: quantile(sorted, 0.1), P50: quantile(sorted, 0.5), P90: quantile(sorted, 0.9), Bins: histogram(sorted),
	}
	if len(values) > 1 {
		d.Std = new(stat.StdDev(values, nil))
	}
	return d
}

// quantile returns the q-quantile of a sorted slice, which must not be empty. It interpolates linearly between the two
// nearest ranks: type 7 of Hyndman and Fan 1996, "Sample Quantiles in Statistical Packages", which is numpy's default.
// stat.Quantile offers only types 1 and 4.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	if low == len(sorted)-1 {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// histogram counts sorted values in bins of equal width. If all values are equal, the bins range from value - 0.5 to
// value + 0.5.
func histogram(sorted []float64) []Bin {
	low, high := sorted[0], sorted[len(sorted)-1]
	if low == high {
		low, high = low-0.5, high+0.5
	}
	out := make([]Bin, bins)
	edge := func(i int) float64 {
		if i == bins {
			return high
		}
		return low + float64(i)*((high-low)/bins)
	}
	for i := range out {
		out[i].Low, out[i].High = edge(i), edge(i+1)
	}
	at := 0
	for _, v := range sorted {
		for at < bins-1 && v >= out[at].High {
			at++
		}
		out[at].Count++
	}
	return out
}

// studentT returns the upper end of the two-sided 95 % interval of Student's t distribution with the given degrees of
// freedom.
func studentT(freedom float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(confidence)
}
