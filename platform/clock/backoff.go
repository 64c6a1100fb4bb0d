package clock

import "time"

// Backoff describes the waits. Jitter returns a number in [0, 1).
type Backoff struct {
	Base   time.Duration
	Max    time.Duration
	Jitter func() float64
}

// Wait returns the wait after the given try, counted from 0. It is between half of
// the doubled base and all of it, at most Max.
func (p Backoff) Wait(try int) time.Duration {
	d := p.Base
	for range min(max(try, 0), maxDoublings) {
		d = min(d*2, p.Max)
	}
	return d/2 + time.Duration(p.Jitter()*float64(d/2))
}

// maxDoublings keeps the result within a time.Duration.
const maxDoublings = 20
