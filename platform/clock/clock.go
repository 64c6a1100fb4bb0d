// Package clock is the only place of the product that reads the time. Every
// Now is in UTC and cut to microseconds, which is what Postgres stores, so that
// a time read back equals the time written.
package clock

import (
	"context"
	"time"
)

// Clock gives the time and the timers made from it.
type Clock interface {
	Now() time.Time
	NewTimer(d time.Duration) Timer
	NewTicker(d time.Duration) Ticker
}

// Timer fires once on C. Stop and Reset report whether they kept its value from
// being read; after either, C holds no value of the earlier setting.
type Timer interface {
	C() <-chan time.Time
	Stop() bool
	Reset(d time.Duration) bool
}

// Ticker fires again and again on C; a slow reader loses ticks, never blocks it.
type Ticker interface {
	C() <-chan time.Time
	Stop()
	Reset(d time.Duration)
}

// Real is the clock of the machine.
func Real() Clock { return real{} }

// Sleep waits for d or for the end of ctx, whichever comes first.
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

// Since is the time that has passed on c since t.
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

// Monotonic is a stopwatch that runs from now: what spans such as leases are measured by, because nobody
// can set it.
func Monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
