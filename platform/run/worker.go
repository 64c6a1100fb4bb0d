// Package run starts the parts of a process in order, keeps them running, and
// stops them in reverse. Every goroutine that it starts, it waits for; whatever
// does not stop within its deadline is named in the error, never forgotten.
package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Worker is one part of a process. Only Name and Run are needed.
type Worker struct {
	Name string
	// Run works until ctx ends and then returns nil or the error of ctx. A return
	// before that is a failure, also with nil.
	Run func(ctx context.Context) error
	// Ready answers nil once the worker serves. Host asks again until its timeout.
	Ready func(ctx context.Context) error
	// Stop lets the worker finish what it holds; the context of Run is cancelled
	// when it returns or when its deadline has passed.
	Stop func(ctx context.Context) error
	// StopTimeout replaces the Host's for this worker.
	StopTimeout time.Duration
}

// ErrEnded is the failure of a worker that returned without being asked to.
var ErrEnded = errors.New("ended on its own")

// call runs the worker and makes its outcome an error of its own: nil only for a
// return that was asked for.
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

// Group runs workers side by side until ctx ends or one fails, then cancels the
// rest, waits for all, and joins their errors. It uses Name and Run only.
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
