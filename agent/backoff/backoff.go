// Package backoff says how long to wait after a failed try: twice as long each
// time up to a bound, spread by chance so that many agents do not come back at
// the same moment.
package backoff

import "time"

// Policy is a way to wait. Jitter answers a number in [0, 1).
type Policy struct {
	Base   time.Duration
	Max    time.Duration
	Jitter func() float64
}

// Wait is how long to wait after the try of that number, counted from 0: between
// half and the whole of the doubled base.
func (p Policy) Wait(try int) time.Duration {
	d := p.Base
	for range min(max(try, 0), maxDoublings) {
		d = min(d*2, p.Max)
	}
	return d/2 + time.Duration(p.Jitter()*float64(d/2))
}

// maxDoublings keeps the doubling within a time.Duration.
const maxDoublings = 20
