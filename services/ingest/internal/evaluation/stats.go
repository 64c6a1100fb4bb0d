package evaluation

import (
	"math"
	"slices"
)

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// deviation returns the standard deviation of a sample of at least two values.
func deviation(values []float64) float64 {
	m, sum := mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// meanOf returns the mean of the tasks' means with its error and interval, or nil if there are no values.
func meanOf(values []float64) *Mean {
	n := len(values)
	if n == 0 {
		return nil
	}
	m := &Mean{Value: mean(values), Tasks: n}
	if n > 1 {
		m.Stderr = new(deviation(values) / math.Sqrt(float64(n)))
		half := studentT(float64(n-1)) * *m.Stderr
		m.CI = &Interval{Low: m.Value - half, High: m.Value + half}
	}
	return m
}

// confidence is the upper quantile of a 95 % interval.
const confidence = 0.975

// chance returns pass@k of one task with n rollouts, c of them passed.
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

// distribution returns nil if there are no values.
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
		d.Std = new(deviation(values))
	}
	return d
}

// quantile interpolates linearly between the two nearest ranks.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	if low == len(sorted)-1 {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// histogram counts sorted values in bins of equal width. If all values are the same, the range is the value plus and
// minus one half.
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

// studentT returns the quantile of Student's t distribution at confidence, by bisection.
func studentT(freedom float64) float64 {
	high := 2.0
	for tCDF(high, freedom) < confidence {
		high *= 2
	}
	low := 0.0
	const halvings = 80
	for range halvings {
		if middle := (low + high) / 2; tCDF(middle, freedom) < confidence {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// tCDF is the cumulative distribution function of Student's t, for t >= 0.
func tCDF(t, freedom float64) float64 {
	return 1 - incompleteBeta(freedom/(freedom+t*t), freedom/2, 0.5)/2
}

// incompleteBeta is the regularised incomplete beta function. It is computed as a continued fraction (Abramowitz and
// Stegun 26.5.8) by Lentz's method.
func incompleteBeta(x, a, b float64) float64 {
	if x <= 0 || x >= 1 {
		return min(1, max(0, x))
	}
	lgA, _ := math.Lgamma(a)
	lgB, _ := math.Lgamma(b)
	lgAB, _ := math.Lgamma(a + b)
	front := math.Exp(lgAB - lgA - lgB + a*math.Log(x) + b*math.Log1p(-x))
	if x > (a+1)/(a+b+2) {
		return 1 - front*fraction(1-x, b, a)/b
	}
	return front * fraction(x, a, b) / a
}

func fraction(x, a, b float64) float64 {
	const most, tiny, enough = 500, 1e-300, 1e-15
	c, d := 1.0, 1/nonzero(1-(a+b)*x/(a+1), tiny)
	value := d
	for i := range most {
		m := float64(i + 1)
		for _, term := range [...]float64{
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			d = 1 / nonzero(1+term*d, tiny)
			c = nonzero(1+term/c, tiny)
			value *= d * c
		}
		if math.Abs(d*c-1) < enough {
			break
		}
	}
	return value
}

func nonzero(v, tiny float64) float64 {
	if math.Abs(v) < tiny {
		return tiny
	}
	return v
}
