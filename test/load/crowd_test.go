package load

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// crowd lets the first callers of a load send calls, and the others wait.
type crowd struct {
	mu      sync.Mutex
	size    int
	changed chan struct{} // closed at the next change of size; nil if no caller waits
}

// resize sets the number of callers that send calls.
func (c *crowd) resize(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size = size
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// await waits until the caller with the given number, from 0, may send a call. It returns false if ctx is done.
func (c *crowd) await(ctx context.Context, caller int) bool {
	for ctx.Err() == nil {
		changed := c.waits(caller)
		if changed == nil {
			return true
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return false
}

// waits returns nil if the caller may send a call, or else a channel that is closed at the next change of size.
func (c *crowd) waits(caller int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if caller < c.size {
		return nil
	}
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

func TestCrowd_await(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{}
	c.resize(1)
	require.True(t, c.await(ctx, 0))
	came := make(chan bool)
	go func() { came <- c.await(ctx, 1) }()
	c.resize(2)
	require.True(t, <-came)
	go func() { came <- c.await(ctx, 2) }()
	cancel()
	require.False(t, <-came)
}
