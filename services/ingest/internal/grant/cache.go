package grant

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// How long an answer is remembered, how many are, and how long one question may take.
const (
	rememberGood = 5 * time.Second
	rememberBad  = time.Second
	maxEntries   = 16_384
	askTimeout   = 5 * time.Second
)

type cache struct {
	clock   clock.Clock
	resolve func(ctx context.Context, hash []byte) (*Grant, error)

	mu      sync.Mutex
	entries map[[32]byte]*entry
}

// entry is an answer, or the question that is being asked: done is closed once it is answered.
type entry struct {
	done  chan struct{}
	grant *Grant
	err   error
	until time.Time
}

func newCache(clk clock.Clock, resolve func(ctx context.Context, hash []byte) (*Grant, error)) *cache {
	return &cache{clock: clk, resolve: resolve, entries: map[[32]byte]*entry{}}
}

// get answers a token's grant. Many that ask at once cause one question; only what jobs said of the token
// is remembered, not that it could not be asked.
func (c *cache) get(ctx context.Context, hash [32]byte) (*Grant, error) {
	for {
		e, mine := c.entry(hash)
		if mine {
			c.ask(ctx, hash, e)
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
		// Who asked could not find out, perhaps because it gave up: ask again unless we did, too.
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

// shrink makes room: what is out of date goes, and where that is nothing, any that is answered.
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

func (c *cache) ask(ctx context.Context, hash [32]byte, e *entry) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asked := c.clock.Now()
	e.err = fault.New(fault.Unavailable, "", "the credential could not be checked")
	defer c.answered(hash, e, asked) // also where resolve panics
	e.grant, e.err = c.resolve(ctx, hash[:])
}

func (c *cache) answered(hash [32]byte, e *entry, asked time.Time) {
	defer close(e.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.err == nil:
		e.until = asked.Add(rememberGood)
	case fault.Is(e.err, fault.Unauthenticated):
		e.until = asked.Add(rememberBad)
	default:
		delete(c.entries, hash)
	}
}
