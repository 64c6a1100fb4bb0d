package ingesttoken

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Limits of the cache: how long it stores a grant and a refusal, the maximum number of entries, and how long a call of
// the function resolve may take.
const (
	rememberGood   = 5 * time.Second
	rememberBad    = time.Second
	maxEntries     = 16_384
	resolveTimeout = 5 * time.Second
)

type cache struct {
	clock   clock.Clock
	resolve func(ctx context.Context, hash []byte) (*Grant, error)

	mu      sync.Mutex
	entries map[[32]byte]*entry
}

// entry is the result of a call of resolve, or a call that is in progress. The channel done is closed when the call has
// returned. The field until is the time at which the result expires; it is zero while the call is in progress.
type entry struct {
	done  chan struct{}
	grant *Grant
	err   error
	until time.Time
}

func newCache(clk clock.Clock, resolve func(ctx context.Context, hash []byte) (*Grant, error)) *cache {
	return &cache{clock: clk, resolve: resolve, entries: map[[32]byte]*entry{}}
}

// get returns the grant of a token. Concurrent calls for one token share one call of resolve. Grants and refusals are
// cached; other errors of resolve are not.
func (c *cache) get(ctx context.Context, hash [32]byte) (*Grant, error) {
	for {
		e, mine := c.entry(hash)
		if mine {
			c.fetch(ctx, hash, e)
			return e.grant, e.err
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, fault.FromContext(ctx.Err())
		}
		if e.err == nil || fault.Is(e.err, fault.Unauthenticated) {
			return e.grant, e.err
		}
		// Another caller's resolve of this token failed. If only that caller's context was canceled, try again.
		if err := ctx.Err(); err != nil {
			return nil, fault.FromContext(err)
		}
		if !fault.HasCode(e.err, fault.CodeCanceled) {
			return nil, e.err
		}
	}
}

func (c *cache) entry(hash [32]byte) (e *entry, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.entries[hash]
	if e != nil && (e.until.IsZero() || c.clock.Now().Before(e.until)) {
		return e, false
	}
	if e == nil && len(c.entries) >= maxEntries {
		c.shrink()
	}
	e = &entry{done: make(chan struct{})}
	c.entries[hash] = e
	return e, true
}

// shrink makes room for an entry. It removes the expired entries. If the cache is still full, it removes arbitrary
// entries whose call of resolve has returned, until the cache has room for one entry.
func (c *cache) shrink() {
	now := c.clock.Now()
	for hash, e := range c.entries {
		if !e.until.IsZero() && !now.Before(e.until) {
			delete(c.entries, hash)
		}
	}
	for hash, e := range c.entries {
		if len(c.entries) < maxEntries {
			return
		}
		if !e.until.IsZero() {
			delete(c.entries, hash)
		}
	}
}

func (c *cache) fetch(ctx context.Context, hash [32]byte, e *entry) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	began := c.clock.Now()
	e.err = fault.New(fault.Unavailable, "", "the credential could not be checked")
	defer c.finish(hash, e, began) // even if resolve panics
	e.grant, e.err = c.resolve(ctx, hash[:])
}

func (c *cache) finish(hash [32]byte, e *entry, began time.Time) {
	defer close(e.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.err == nil:
		e.until = began.Add(rememberGood)
	case fault.Is(e.err, fault.Unauthenticated):
		e.until = began.Add(rememberBad)
	default:
		delete(c.entries, hash)
	}
}
