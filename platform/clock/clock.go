// Package clock is the only place in Signalbox that reads the time. Now is always in UTC and truncated to
// microseconds, the resolution of Postgres, so that a time read back from the database equals the time written.
//
// Backoff computes the wait after a failed attempt, with a limit and jitter.
package clock

import (
	"context"
	"time"
)

// Clock reads the time and creates timers.
type Clock interface {
	Now() time.Time
	NewTimer(d time.Duration) Timer
	NewTicker(d time.Duration) Ticker
}

// Timer fires once on C. Stop and Reset return true if the timer had not fired, or if its value had not been received.
// After Stop or Reset, C holds no earlier value.
type Timer interface {
	C() <-chan time.Time
	Stop() bool
	Reset(d time.Duration) bool
}

// Ticker fires repeatedly on C. A slow reader loses ticks but never blocks the ticker.
type Ticker interface {
	C() <-chan time.Time
	Stop()
	Reset(d time.Duration)
}

// Real returns the system clock.
func Real() Clock { return real{} }

// Sleep waits until d has passed or ctx is done, whichever comes first. If ctx is done first, it returns ctx.Err().
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

// Since returns the time elapsed on c since t.
func Since(c Clock, t time.Time) time.Duration { return c.Now().Sub(t) }

type real struct{}

func (real) Now() time.Time { return stamp(time.Now()) }

func (real) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }

func (real) NewTicker(d time.Duration) Ticker { return realTicker{time.NewTicker(d)} }

type realTimer struct{ t *time.Timer }

func (r realTimer) C() <-chan time.Time        { return r.t.C }
func (r realTimer) Stop() bool                 { return r.t.Stop() }
func (r realTimer) Reset(d time.Duration) bool { return r.t.Reset(d) }

type realTicker struct{ t *time.Ticker }

func (r realTicker) C() <-chan time.Time   { return r.t.C }
func (r realTicker) Stop()                 { r.t.Stop() }
func (r realTicker) Reset(d time.Duration) { r.t.Reset(d) }

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Monotonic returns a function that returns the time elapsed since the call to Monotonic. Unlike a Clock it is not
// affected by changes of the system time, so durations such as leases are measured with it.
func Monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
