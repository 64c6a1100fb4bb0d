package run

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
	// ErrKilled is what Host.Run answers at a second signal: nothing was waited
	// for any more, and main exits with 1 at once.
	ErrKilled = errors.New("killed by a second signal")
	// ErrNotStopped marks what outlived its deadline.
	ErrNotStopped = errors.New("did not stop in time")
)

// asked is the reason to stop that a signal gave.
type asked struct{ signal os.Signal }

func (a asked) Error() string { return "asked to stop by " + a.signal.String() }

type askedKey struct{}

// AskedBy is the signal that asked for the stop that ctx is about, nil where none did.
func AskedBy(ctx context.Context) os.Signal {
	s, _ := ctx.Value(askedKey{}).(os.Signal)
	return s
}

// Times of a Host that leaves them zero.
const (
	DefaultReadyTimeout = time.Minute
	DefaultStopTimeout  = 10 * time.Second

	readyEvery = 20 * time.Millisecond
	cancelTime = time.Second // for Run to return once its context was cancelled at the deadline
)

// Signals hands on SIGINT and SIGTERM until stop is called. Two are kept for a reader that is busy, which
// is all that a Host asks for. A signal that is sent again before the process has run at all is one with
// the first for the kernel, and so here.
func Signals() (c <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals, func() { signal.Stop(signals) }
}

// Host runs workers as one process.
type Host struct {
	Log     *slog.Logger
	Signals <-chan os.Signal // the first one stops, the second one kills
	Workers []Worker         // started in this order, stopped in the reverse
	Closers *Closers         // closed after the last worker; may be nil

	ReadyTimeout time.Duration // for each worker
	StopTimeout  time.Duration // for each worker, and for the closers together

	// Ready is called once all workers are ready. An error stops the host.
	Ready func(ctx context.Context) error
	// Drain is called before any worker is stopped, if the host had been ready:
	// it takes the process out of its balancer and waits until that is known.
	Drain func(ctx context.Context)
}

type started struct {
	Worker
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // of Run; read after done
}

// Run starts the workers and returns when all have stopped: nil after a signal or
// the end of ctx, else the errors of the workers, of the start and of the stop.
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

// watch waits for nothing but signals, so that the second one kills whatever the first one met: a log
// that nobody reads any more, for one.
func (h *Host) watch(halt context.CancelCauseFunc, killed chan<- error, over <-chan struct{}) {
	for signals := 1; ; signals++ {
		select {
		case s := <-h.Signals:
			if signals > 1 {
				killed <- fmt.Errorf("%w: %v", ErrKilled, s)
				return
			}
			halt(asked{s})
		case <-over:
			return
		}
	}
}

// serve goes through the whole life. base lasts for ever; halted ends with the
// first reason to stop.
func (h *Host) serve(base, halted context.Context, halt context.CancelCauseFunc) error {
	running, err := h.start(base, halted, halt)
	if err == nil && halted.Err() == nil && h.Ready != nil {
		err = h.Ready(halted)
	}
	inService := err == nil && len(running) == len(h.Workers)
	if inService {
		<-halted.Done()
	}
	if by, ok := errors.AsType[asked](context.Cause(halted)); ok {
		base = context.WithValue(base, askedKey{}, by.signal)
		h.Log.InfoContext(base, "stopping", "signal", by.signal.String())
	}
	if inService && h.Drain != nil {
		h.Drain(base)
	}
	errs := []error{err}
	for _, s := range slices.Backward(running) {
		errs = append(errs, h.stop(base, s))
	}
	return errors.Join(append(errs, h.close(base))...)
}

func (h *Host) start(base, halted context.Context, halt context.CancelCauseFunc) (running []*started, err error) {
	for _, w := range h.Workers {
		if isOver(halted) {
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
		close(s.done) // before the halt, so that the stop finds this worker ended
		if s.err != nil {
			halt(s.err)
		}
	}()
	return s
}

// await asks the worker until it is ready. A host that is halted meanwhile is no
// error of this worker.
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
	last := clock.Real().NewTimer(cancelTime)
	defer last.Stop()
	select {
	case err := <-stopped:
		return err
	case <-last.C():
		return fmt.Errorf("%s: %w (%v)", s.Name, ErrNotStopped, limit)
	}
}

// finish lets a worker that still runs end by itself.
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
	limit := or(h.StopTimeout, DefaultStopTimeout)
	ctx, cancel := context.WithTimeout(base, limit)
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

// isOver asks for the end where that is no error but what was wanted.
func isOver(ctx context.Context) bool { return ctx.Err() != nil }

func or(d, fallback time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return fallback
}
