// Package signal owns what the training of a run is asked while it runs: to save a checkpoint, to leave, to
// stop. jobs decides it; here trainings wait for it, many at once over one stream of jobs.
//
// It promises that an asking which is there is answered at once and one that comes is answered when it comes;
// that a stream which is lost costs a delay and no asking; and that no run and no server holds more waits than
// its share.
package signal

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// None is the signal of a run that is asked for nothing.
const None = "none"

// Signal is what a training is asked.
type Signal struct {
	Signal   string
	ID       string // of the asking, empty for none
	Deadline *time.Time
}

// Waiter names who waits.
type Waiter struct {
	RunID   string
	Attempt int32
	// After is the asking that he knows already.
	After string
}

// Next asks jobs what an attempt is asked now.
type Next func(ctx context.Context, runID string, attempt int32) (Signal, error)

// Bounds of what waits at once.
const (
	maxWaits   = 4096
	maxPerRun  = 8
	lookAgain  = 10 * time.Second // how long a wait trusts wake-ups alone
	retryAfter = 5 * time.Second
)

// Board is where trainings wait.
type Board struct {
	clock clock.Clock
	next  Next

	mu      sync.Mutex
	asked   map[string]string // run to asking, as jobs told last
	waiting map[string]map[chan struct{}]struct{}
	count   int

	closed chan struct{}
	close  func()
}

// NewBoard makes a board.
func NewBoard(clk clock.Clock, next Next) *Board {
	b := &Board{clock: clk, next: next, asked: map[string]string{}, waiting: map[string]map[chan struct{}]struct{}{}, closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.closed) })
	return b
}

// Close ends every wait, also those that come later: what is asked now is answered.
func (b *Board) Close() { b.close() }

// Set takes what all runs are asked, whole, and wakes whom it concerns.
func (b *Board) Set(asked map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for run, id := range asked {
		if b.asked[run] != id {
			b.wake(run)
		}
	}
	for run := range b.asked {
		if _, still := asked[run]; !still {
			b.wake(run)
		}
	}
	b.asked = maps.Clone(asked)
}

// wake needs the lock.
func (b *Board) wake(run string) {
	for c := range b.waiting[run] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Await answers what an attempt is asked: at once where that is another asking than the one it knows, else when
// another comes or the time is over, whichever is first.
func (b *Board) Await(ctx context.Context, w Waiter, wait time.Duration) (Signal, error) {
	changed, leave, err := b.enter(w.RunID)
	if err != nil {
		return Signal{}, err
	}
	defer leave()
	over := b.clock.NewTimer(wait)
	defer over.Stop()
	again := b.clock.NewTicker(lookAgain)
	defer again.Stop()
	for {
		now, err := b.next(ctx, w.RunID, w.Attempt)
		if err != nil || wait <= 0 || (now.ID != "" && now.ID != w.After) {
			return now, err
		}
		select {
		case <-changed:
		case <-again.C():
		case <-over.C():
			return now, nil
		case <-b.closed:
			return now, nil
		case <-ctx.Done():
			return now, nil // whoever still listens is told what was true a moment ago
		}
	}
}

// enter counts a wait in, and answers what wakes it.
func (b *Board) enter(run string) (changed <-chan struct{}, leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count >= maxWaits || len(b.waiting[run]) >= maxPerRun {
		f := fault.New(fault.Unavailable, "signals_busy", "too many wait for a signal")
		f.RetryAfter = retryAfter
		return nil, nil, f
	}
	c := make(chan struct{}, 1)
	if b.waiting[run] == nil {
		b.waiting[run] = map[chan struct{}]struct{}{}
	}
	b.waiting[run][c] = struct{}{}
	b.count++
	return c, func() { b.leave(run, c) }, nil
}

func (b *Board) leave(run string, c chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting[run], c)
	if len(b.waiting[run]) == 0 {
		delete(b.waiting, run)
	}
	b.count--
}
