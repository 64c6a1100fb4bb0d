package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

var (
	// ErrKilled is the error of Host.Run after a second signal. Run returns it without waiting, and main exits with
	// status 1 at once.
	ErrKilled = errors.New("killed by a second signal")
	// ErrNotStopped is the error for a worker, or for the closers, if they exceed the stop timeout.
	ErrNotStopped = errors.New("did not stop in time")
)

// stopError is the cancellation cause if a signal stops the host.
type stopError struct{ signal os.Signal }

func (a stopError) Error() string { return "stop requested by signal " + a.signal.String() }

type signalKey struct{}

// StopSignal returns the signal that caused the stop, or nil. The context must be that of Drain, of Stop or of a close
// function.
func StopSignal(ctx context.Context) os.Signal {
	s, _ := ctx.Value(signalKey{}).(os.Signal)
	return s
}

// Default timeouts of a Host.
const (
	DefaultReadyTimeout = time.Minute
	DefaultStopTimeout  = 10 * time.Second

	readyEvery = 20 * time.Millisecond
	cancelTime = time.Second // how long Run may take to return after its context was cancelled at the deadline

	// In the last part of StopLimit, which lasts reserve, each worker that is still running gets lastTime to stop. The
	// closers then get lastTime too.
	reserve  = 200 * time.Millisecond
	lastTime = 50 * time.Millisecond
)

// Signals returns a channel that receives SIGINT and SIGTERM until stop is called. It buffers two signals, because a
// Host needs no more. Equal signals that arrive before the process can run count as one, because the kernel merges
// them.
func Signals() (c <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals, func() { signal.Stop(signals) }
}

// Host runs workers as one process.
type Host struct {
	Log     *slog.Logger
	Signals <-chan os.Signal // the first signal stops the host; after the second, Run returns at once
	Workers []Worker         // are started in this order and stopped in reverse order
	Closers *Closers         // are called after the last worker has stopped; may be nil

	ReadyTimeout time.Duration // for each worker
	StopTimeout  time.Duration // for each worker, and for the closers together
	// StopLimit returns the time limit of the whole stop, from the end of Drain to the return of Run. The parameter by
	// is the signal that caused the stop, or nil. Without StopLimit, only StopTimeout applies.
	StopLimit func(by os.Signal) time.Duration

	// Ready is called when all workers are ready. An error stops the host.
	Ready func(ctx context.Context) error
	// Drain is called before any worker is stopped, if the host was ready. It removes the process from its load
	// balancer and returns when that has taken effect.
	Drain func(ctx context.Context)
}

type started struct {
	Worker
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // result of Run; valid after done is closed
}

// Run starts the workers and returns when all have stopped, or at once after a second signal. It returns the errors
// of the workers, of the start and of the stop. The first signal and the end of ctx are not errors.
func (h *Host) Run(ctx context.Context) error {
	halted, halt := context.WithCancelCause(ctx)
	defer halt(nil)
	over := make(chan struct{})
	defer close(over)
	killed := make(chan error, 1)
	go h.watch(halt, killed, over)

	stopped := make(chan error, 1)
	go func() { stopped <- h.serve(context.WithoutCancel(ctx), halted, halt) }()
	select {
	case err := <-stopped:
		return err
	case err := <-killed:
		return err
	}
}

// watch does nothing but wait for signals. A second signal therefore always ends Run, even if the handling of the
// first one hangs, for example because a log write blocks.
func (h *Host) watch(halt context.CancelCauseFunc, killed chan<- error, over <-chan struct{}) {
	for signals := 1; ; signals++ {
		select {
		case s := <-h.Signals:
			if signals > 1 {
				killed <- fmt.Errorf("%w: %v", ErrKilled, s)
				return
			}
			halt(stopError{s})
		case <-over:
			return
		}
	}
}

// serve starts, runs and stops the workers. The context base is never cancelled; the context halted is cancelled with
// the first reason to stop.
func (h *Host) serve(base, halted context.Context, halt context.CancelCauseFunc) error {
	running, err := h.start(base, halted, halt)
	if err == nil && halted.Err() == nil && h.Ready != nil {
		err = h.Ready(halted)
	}
	inService := err == nil && len(running) == len(h.Workers)
	if inService {
		<-halted.Done()
	}
	if by, ok := errors.AsType[stopError](context.Cause(halted)); ok {
		base = context.WithValue(base, signalKey{}, by.signal)
		h.Log.InfoContext(base, "stopping", "signal", by.signal.String())
	}
	if inService {
		h.drain(base)
	}
	base, cancel := h.limited(base)
	defer cancel()
	errs := []error{err}
	for _, s := range slices.Backward(running) {
		errs = append(errs, h.stop(base, s))
	}
	return errors.Join(append(errs, h.close(base))...)
}

// drain calls the Drain of each worker, and then that of the host.
func (h *Host) drain(ctx context.Context) {
	for _, w := range h.Workers {
		if w.Drain != nil {
			w.Drain()
		}
	}
	if h.Drain != nil {
		h.Drain(ctx)
	}
}

// limited returns a copy of base with the deadline that StopLimit sets, minus the time reserved for workers that miss
// the deadline.
func (h *Host) limited(base context.Context) (context.Context, context.CancelFunc) {
	if h.StopLimit == nil {
		return context.WithCancel(base)
	}
	return context.WithTimeout(base, h.StopLimit(StopSignal(base))-reserve)
}

func (h *Host) start(base, halted context.Context, halt context.CancelCauseFunc) (running []*started, err error) {
	for _, w := range h.Workers {
		if isDone(halted) {
			return running, nil
		}
		running = append(running, launch(base, w, halt))
		if err := h.await(halted, w); err != nil {
			return running, err
		}
	}
	return running, nil
}

func launch(base context.Context, w Worker, halt context.CancelCauseFunc) *started {
	ctx, cancel := context.WithCancel(base)
	s := &started{Worker: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		s.err = w.call(ctx)
		close(s.done) // before halt, so that stop sees that this worker has ended
		if s.err != nil {
			halt(s.err)
		}
	}()
	return s
}

// await polls Ready until the worker is ready. It returns nil if the host is halted
// in the meantime.
func (h *Host) await(halted context.Context, w Worker) error {
	if w.Ready == nil {
		return nil
	}
	limit := or(h.ReadyTimeout, DefaultReadyTimeout)
	ctx, cancel := context.WithTimeout(halted, limit)
	defer cancel()
	again := clock.Real().NewTicker(readyEvery)
	defer again.Stop()
	for {
		err := w.Ready(ctx)
		if err == nil || halted.Err() != nil {
			return nil
		}
		select {
		case <-again.C():
		case <-ctx.Done():
			if halted.Err() != nil {
				return nil
			}
			return fmt.Errorf("%s: not ready after %v: %w", w.Name, limit, err)
		}
	}
}

func (h *Host) stop(base context.Context, s *started) error {
	limit := or(s.StopTimeout, or(h.StopTimeout, DefaultStopTimeout))
	ctx, cancel := context.WithTimeout(base, limit)
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		err := s.finish(ctx)
		s.cancel()
		<-s.done
		stopped <- errors.Join(s.err, err)
	}()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		s.cancel()
	}
	last := clock.Real().NewTimer(remaining(base, cancelTime))
	defer last.Stop()
	select {
	case err := <-stopped:
		return err
	case <-last.C():
		return fmt.Errorf("%s: %w (%v)", s.Name, ErrNotStopped, limit)
	}
}

// finish calls Stop if the worker is still running.
func (s *started) finish(ctx context.Context) error {
	if s.Stop == nil {
		return nil
	}
	select {
	case <-s.done:
		return nil
	default:
	}
	if err := s.Stop(ctx); err != nil {
		return fmt.Errorf("stop %s: %w", s.Name, err)
	}
	return nil
}

func (h *Host) close(base context.Context) error {
	if h.Closers == nil {
		return nil
	}
	limit := remaining(base, or(h.StopTimeout, DefaultStopTimeout))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(base), limit)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- h.Closers.Close(ctx) }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("closers: %w (%v)", ErrNotStopped, limit)
	}
}

// remaining returns d or, if that is less, the time until the deadline of base, but at least lastTime.
func remaining(base context.Context, d time.Duration) time.Duration {
	deadline, ok := base.Deadline()
	if !ok {
		return d
	}
	return min(d, max(lastTime, deadline.Sub(clock.Real().Now())))
}

// isDone reports whether ctx is done, for callers that do not treat this as an error.
func isDone(ctx context.Context) bool { return ctx.Err() != nil }

func or(d, fallback time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return fallback
}
