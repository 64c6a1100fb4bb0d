package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Closers is a stack of close functions. A deferred Close closes everything that a failed start has already opened.
// A start that succeeds passes the stack to the Host, which closes it after the last worker has stopped. The zero
// value is ready to use.
type Closers struct {
	mu    sync.Mutex
	stack []closer
}

type closer struct {
	name  string
	close func(context.Context) error
}

// Add pushes a close function.
func (c *Closers) Add(name string, close func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stack = append(c.stack, closer{name, close})
}

// Close calls and removes all functions on the stack, newest first, and joins their
// errors. A second call does nothing.
func (c *Closers) Close(ctx context.Context) error {
	c.mu.Lock()
	stack := c.stack
	c.stack = nil
	c.mu.Unlock()
	var errs []error
	for _, c := range slices.Backward(stack) {
		if err := c.close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}
