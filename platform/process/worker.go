// Package process owns the lifecycle of a process: it starts the parts of the process in order and stops them in
// reverse order. It waits until each part has stopped or its deadline has passed. Its error contains the name of every
// part that does not stop in time.
package process

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Worker is one part of a process. Only Name and Run are required.
type Worker struct {
	Name string
	// Run runs until ctx is done and then returns nil or the error of ctx. Returning earlier is a failure, even with
	// nil.
	Run func(ctx context.Context) error
	// Ready returns nil once the worker serves. Host polls it until it returns nil or ReadyTimeout has passed.
	Ready func(ctx context.Context) error
	// Serves returns nil if a worker that has started can serve now. If it is nil, Ready is used.
	Serves func(ctx context.Context) error
	// Drain is called before the Host's Drain. It must not block.
	Drain func()
	// Stop lets the worker finish its current work. The context of Run is cancelled when
	// Stop returns or its deadline has passed.
	Stop func(ctx context.Context) error
	// StopTimeout overrides the Host's StopTimeout for this worker.
	StopTimeout time.Duration
}

// ErrEnded is the error for a worker that returned nil before its context was done.
var ErrEnded = errors.New("returned before it was stopped")

// call runs the worker and returns its failure with the worker's name. It returns nil
// only if ctx is done and the worker returned nil or the error of ctx.
func (w Worker) call(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", w.Name, p, debug.Stack())
		}
	}()
	err = w.Run(ctx)
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())):
		return nil
	case err == nil:
		return fmt.Errorf("%s: %w", w.Name, ErrEnded)
	default:
		return fmt.Errorf("%s: %w", w.Name, err)
	}
}

// Group runs workers concurrently until ctx is done or one of them fails. It then cancels the others, waits for all
// and joins their errors. It uses only Name and Run.
func Group(ctx context.Context, workers ...Worker) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			if errs[i] = w.call(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
