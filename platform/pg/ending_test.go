package pg_test

import (
	"context"
	"sync"
)

// ending is a context that a test ends with an error of its choice. With it a test can cause DeadlineExceeded without
// waiting for a clock.
type ending struct {
	context.Context
	done chan struct{}
	mu   sync.Mutex
	err  error
}

func newEnding(parent context.Context) *ending {
	return &ending{Context: parent, done: make(chan struct{})}
}

func (e *ending) Done() <-chan struct{} { return e.done }

func (e *ending) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (e *ending) end(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
	close(e.done)
}
