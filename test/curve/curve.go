// Package curve draws what trainings report under a key, for tests that compare charts with a direct computation. The same
// source of random numbers draws the same reports.
package curve

import (
	"math"
	"math/rand/v2"
)

// Report is one reported point.
type Report struct {
	Attempt int32 // from 1
	Step    int64
	Value   float64
	Micros  int64 // the time in microseconds since 1970
}

// Draw draws n reports of a key: steps with gaps, spikes, NaN and infinities, repeated steps, and attempts that begin at an
// earlier step than the last one ended at. late is the share of points that repeat an earlier step.
func Draw(draw *rand.Rand, n int, late float64) []Report {
	var all []Report
	attempt, step, at := int32(1), int64(draw.IntN(20)-10), int64(1_700_000_000_000_000)
	for range n {
		at += int64(draw.IntN(5_000_000) - 500_000)
		reported := step
		switch {
		case draw.Float64() < late:
			reported -= int64(draw.IntN(60))
		case draw.IntN(40) == 0:
			step += int64(draw.IntN(200))
		default:
			step++
		}
		if draw.IntN(n) < 2 {
			attempt++
			step -= int64(draw.IntN(n / 2))
			reported = step
		}
		value := math.Round(draw.NormFloat64()*10) / 10 // so that values are equal now and then
		switch draw.IntN(50) {
		case 0:
			value *= 1e6
		case 1:
			value = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[draw.IntN(3)]
		}
		all = append(all, Report{Attempt: attempt, Step: reported, Value: value, Micros: at})
	}
	return all
}
