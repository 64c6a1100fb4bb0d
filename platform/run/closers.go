package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Closers is a stack of what was opened. A start that fails half way closes what
// it had opened by one deferred Close; a start that succeeds hands the stack to
// the Host, which closes it after the last worker. The zero value is ready.
type Closers struct {
	mu    sync.Mutex
	stack []closer
}

type closer struct {
	name  string
	close func(context.Context) error
}

// Add puts one on the stack.
func (c *Closers) Add(name string, close func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stack = append(c.stack, closer{name, close})
}

// Close closes all that is still on the stack, newest first, and joins their
// errors. A second call finds the stack empty.
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
