package clock

import "time"

// Backoff computes the wait after a failed attempt. Jitter returns a random number in [0, 1).
type Backoff struct {
	Base   time.Duration
	Max    time.Duration
	Jitter func() float64
}

// Wait returns how long to wait after the given attempt, counted from 0. The limit doubles from Base with each
// attempt, up to Max. The wait is random, between half of the limit and the limit.
func (p Backoff) Wait(try int) time.Duration {
	d := p.Base
	for range min(max(try, 0), maxDoublings) {
		d = min(d*2, p.Max)
	}
	return d/2 + time.Duration(p.Jitter()*float64(d/2))
}

// maxDoublings prevents an overflow of time.Duration.
const maxDoublings = 20
