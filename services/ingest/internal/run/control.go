package run

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// NoSignal is the name of the signal that a run gets if no signal is pending.
const NoSignal = "none"

// Signal is a signal to a training.
type Signal struct {
	Signal   string
	ID       string // empty if no signal is pending
	Deadline *time.Time
}

// ControlWaiter identifies an attempt that waits for a signal.
type ControlWaiter struct {
	RunID   string
	Attempt int32
	// After is the id of the last signal that the attempt has received.
	After string
}

// NextSignal fetches the current signal of an attempt from the jobs service.
type NextSignal func(ctx context.Context, runID string, attempt int32) (Signal, error)

// maxWaits and maxPerRun are the maximum numbers of concurrent waits, in total and for each run.
const (
	maxWaits   = 4096
	maxPerRun  = 8
	lookAgain  = 10 * time.Second // the interval at which a wait fetches the signal from jobs, in case a wake-up was lost
	retryAfter = 5 * time.Second  // when to repeat a request that was rejected because of too many waits
)

// ControlBoard holds the waits for signals that are in progress.
type ControlBoard struct {
	clock clock.Clock
	next  NextSignal

	mu      sync.Mutex
	signals map[string]string // run id to signal id, as last received from jobs
	waiting map[string]map[chan struct{}]struct{}
	count   int

	closed chan struct{}
	close  func()
}

// NewControlBoard returns a board without waits. Each wait calls next when it starts and whenever it is woken.
func NewControlBoard(clk clock.Clock, next NextSignal) *ControlBoard {
	b := &ControlBoard{clock: clk, next: next, signals: map[string]string{}, waiting: map[string]map[chan struct{}]struct{}{}, closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.closed) })
	return b
}

// Close ends every wait; each wait returns the signal that it fetched last. Later calls of Await return the current
// signal without waiting.
func (b *ControlBoard) Close() { b.close() }

// Set replaces the signal ids of all runs and wakes the waits of every run whose signal changed.
func (b *ControlBoard) Set(signals map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for run, id := range signals {
		if b.signals[run] != id {
			b.wake(run)
		}
	}
	for run := range b.signals {
		if _, still := signals[run]; !still {
			b.wake(run)
		}
	}
	b.signals = maps.Clone(signals)
}

// wake wakes every wait of a run. The caller holds b.mu.
func (b *ControlBoard) wake(run string) {
	for c := range b.waiting[run] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Await returns the current signal of an attempt. If only the signal w.After or none is pending, Await first waits for
// another signal, at most for the given duration. It returns an Unavailable fault if there are already too many waits.
func (b *ControlBoard) Await(ctx context.Context, w ControlWaiter, wait time.Duration) (Signal, error) {
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
			return now, nil // not an error: the caller may still be able to send the last known signal
		}
	}
}

// enter registers a wait and returns the channel that wakes it. The caller must call leave at the end of the wait.
func (b *ControlBoard) enter(run string) (changed <-chan struct{}, leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count >= maxWaits || len(b.waiting[run]) >= maxPerRun {
		f := fault.New(fault.Unavailable, "signals_busy", "too many requests wait for a signal; try again later")
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

func (b *ControlBoard) leave(run string, c chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting[run], c)
	if len(b.waiting[run]) == 0 {
		delete(b.waiting, run)
	}
	b.count--
}
