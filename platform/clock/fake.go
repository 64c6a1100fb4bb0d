package clock

import (
	"context"
	"sync"
	"time"
)

// Fake is a clock that moves only when a test calls Advance. Its timers fire inside
// Advance, in the order of their due times. It is safe for concurrent use.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	waiting map[*fakeTimer]struct{}
	changed chan struct{} // closed and replaced whenever waiting changes
}

// NewFake returns a clock set to start.
func NewFake(start time.Time) *Fake {
	return &Fake{now: stamp(start), waiting: map[*fakeTimer]struct{}{}, changed: make(chan struct{})}
}

// Now returns the clock's time.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// NewTimer returns a timer that fires when Advance reaches now + d.
func (f *Fake) NewTimer(d time.Duration) Timer { return f.add(d, 0) }

// NewTicker returns a ticker that fires whenever Advance reaches another multiple
// of d from now. Like time.NewTicker it panics if d <= 0.
func (f *Fake) NewTicker(d time.Duration) Ticker {
	if d <= 0 {
		panic("clock: ticker interval must be positive")
	}
	return fakeTicker{f.add(d, d)}
}

// Advance moves the clock by d and fires all timers that are due by then, in the order of their due times.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.now.Add(d)
	for next := f.earliest(end); next != nil; next = f.earliest(end) {
		f.now = next.at
		f.fire(next)
	}
	f.now = stamp(end)
}

// Await waits until at least n timers and tickers are running. A test calls it before Advance, to be sure that the
// code under test is already sleeping.
func (f *Fake) Await(ctx context.Context, n int) error {
	for {
		f.mu.Lock()
		enough, changed := len(f.waiting) >= n, f.changed
		f.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (f *Fake) add(d, every time.Duration) *fakeTimer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{fake: f, c: make(chan time.Time, 1), every: every}
	f.start(t, d)
	return t
}

func (f *Fake) start(t *fakeTimer, d time.Duration) {
	t.at = f.now.Add(d)
	if d <= 0 {
		f.fire(t)
		return
	}
	f.waiting[t] = struct{}{}
	f.notify()
}

func (f *Fake) remove(t *fakeTimer) bool {
	_, running := f.waiting[t]
	delete(f.waiting, t)
	select {
	case <-t.c:
		running = true // as for a real timer, a value that was not received counts as not fired
	default:
	}
	f.notify()
	return running
}

func (f *Fake) fire(t *fakeTimer) {
	select {
	case t.c <- t.at:
	default:
	}
	if t.every > 0 {
		t.at = t.at.Add(t.every)
		return
	}
	delete(f.waiting, t)
	f.notify()
}

func (f *Fake) earliest(end time.Time) *fakeTimer {
	var next *fakeTimer
	for t := range f.waiting {
		if !t.at.After(end) && (next == nil || t.at.Before(next.at)) {
			next = t
		}
	}
	return next
}

func (f *Fake) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

type fakeTimer struct {
	fake  *Fake
	c     chan time.Time
	at    time.Time
	every time.Duration
}

func (t *fakeTimer) C() <-chan time.Time { return t.c }

func (t *fakeTimer) Stop() bool {
	t.fake.mu.Lock()
	defer t.fake.mu.Unlock()
	return t.fake.remove(t)
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	t.fake.mu.Lock()
	defer t.fake.mu.Unlock()
	running := t.fake.remove(t)
	if t.every > 0 {
		t.every = d
	}
	t.fake.start(t, d)
	return running
}

type fakeTicker struct{ t *fakeTimer }

func (k fakeTicker) C() <-chan time.Time   { return k.t.C() }
func (k fakeTicker) Stop()                 { k.t.Stop() }
func (k fakeTicker) Reset(d time.Duration) { k.t.Reset(d) }
