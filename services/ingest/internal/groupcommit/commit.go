// Package groupcommit makes reports durable. Requests wait in queues. A flusher stores the waiting requests of its
// queue as a group in one transaction, and each request gets its response after the commit. The package promises that
// a numbered request of a writer is stored once, and its number in one transaction with its data; that a request that
// reuses a number with another body is rejected; that only one group at a time writes the rows of a run; and that an
// invalid request does not make other requests fail.
package groupcommit

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Key identifies a request within a run and a stream: Seq is the number that Writer gave to the request. The zero Key
// means that the request has no number.
type Key struct {
	Writer string
	Seq    int64
}

// Write stores one request while the run's row is locked. It may be called again in another transaction. It should add
// statements whose results it does not need to batch, which is sent last.
type Write func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error

// All returns a write that calls the given writes in order, until one fails.
func All(writes ...Write) Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		for _, write := range writes {
			if err := write(ctx, tx, batch, r); err != nil {
				return err
			}
		}
		return nil
	}
}

// Item is one request.
type Item struct {
	RunID   string
	Attempt int32
	Stream  string
	Key     Key
	// Digest is the digest of the body. It is ignored if Key is zero.
	Digest Digest
	Write  Write
	// Unfenced items are stored even if a newer attempt has replaced the attempt of the item.
	Unfenced bool
}

// Run is the locked row of a run, with the changes of the group so far.
type Run struct {
	ID                string
	Attempt           int32
	LineSeq, BatchSeq int64
	Keys              int32
	Now               time.Time
	// Memo passes values between the writes of one group. Flush clears it.
	Memo map[any]any
	// Fresh must be set by a write if followers must be notified of the data.
	Fresh bool

	committed []func()
}

// Committed registers a function that is called after the commit of the group. It is not called if the group fails.
func (r *Run) Committed(fn func()) { r.committed = append(r.committed, fn) }

// The maximum number of items in a group and in the queue of each flusher, and the time limit of a group's transaction.
const (
	maxGroup     = 256
	maxQueue     = 1024
	groupTimeout = 20 * time.Second
)

// Committer stores items. It stores them only while Run is running.
type Committer struct {
	pool    *pgxpool.Pool
	clock   clock.Clock
	changed func(runs []string)

	seed     maphash.Seed
	lanes    []chan *waiting
	stopped  chan struct{}
	stopOnce sync.Once
}

type waiting struct {
	Item
	result chan result
}

type result struct {
	repeated bool
	err      error
}

// lanes is the number of flushers. All items of a run go to the same flusher.
const lanes = 2

// New returns a committer. After each commit, the committer calls changed with the runs whose followers must be
// notified. changed must not block.
func New(pool *pgxpool.Pool, clk clock.Clock, changed func(runs []string)) *Committer {
	c := &Committer{
		pool: pool, clock: clk, changed: changed, seed: maphash.MakeSeed(),
		lanes: make([]chan *waiting, lanes), stopped: make(chan struct{}),
	}
	for i := range c.lanes {
		c.lanes[i] = make(chan *waiting, maxQueue)
	}
	return c
}

// Store stores an item and returns after the commit. repeated reports whether an earlier request had already stored the
// item. If the queue is full, Store returns an Unavailable fault at once. If ctx ends or the committer stops first, the
// item may or may not be stored; the caller can safely send an item with a Key again.
func (c *Committer) Store(ctx context.Context, item Item) (repeated bool, err error) {
	w := &waiting{Item: item, result: make(chan result, 1)}
	lane := c.lanes[maphash.String(c.seed, item.RunID)%uint64(len(c.lanes))]
	select {
	case lane <- w:
	default:
		return false, fault.New(fault.Unavailable, "ingest_busy", "too many reports are waiting to be stored; try again later")
	}
	select {
	case r := <-w.result:
		return r.repeated, r.err
	case <-ctx.Done():
		return false, fault.FromContext(ctx.Err())
	case <-c.stopped:
		return false, stopping()
	}
}

func stopping() error { return fault.New(fault.Unavailable, "draining", "the server is shutting down") }

// Run stores queued items until ctx ends. It finishes groups that have begun.
func (c *Committer) Run(ctx context.Context) error {
	defer c.stopOnce.Do(func() { close(c.stopped) })
	var flushers sync.WaitGroup
	for _, lane := range c.lanes {
		flushers.Go(func() { c.flush(ctx, lane) })
	}
	flushers.Wait()
	return ctx.Err()
}

func (c *Committer) flush(ctx context.Context, lane chan *waiting) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-lane:
			c.group(context.WithoutCancel(ctx), gather(first, lane))
		}
	}
}

// gather returns first and the items that are queued behind first, at most maxGroup items in total.
func gather(first *waiting, lane chan *waiting) []*waiting {
	group := []*waiting{first}
	for len(group) < maxGroup {
		select {
		case next := <-lane:
			group = append(group, next)
		default:
			return group
		}
	}
	return group
}

// group stores items in one transaction. If the transaction fails, group stores the items one by one, so that each item
// gets its own error.
func (c *Committer) group(ctx context.Context, items []*waiting) {
	results, err := c.attempt(ctx, items)
	if err == nil {
		for i, w := range items {
			w.result <- results[i]
		}
		return
	}
	if len(items) == 1 {
		items[0].result <- result{err: err}
		return
	}
	for _, w := range items {
		c.group(ctx, []*waiting{w})
	}
}
