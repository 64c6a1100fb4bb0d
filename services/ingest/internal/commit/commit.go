// Package commit owns how reports become durable: requests queue, a flusher takes what has queued and
// stores it in one transaction, and each request is answered after that commit. It promises that a
// numbered request of a writer is stored once, with its data and in the same transaction, and that its number
// with another body is refused; that the rows of a run are written one group at a time; and that what one
// request does wrong fails that one alone.
package commit

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

// Key is a request's place among those of its writer; the zero Key is a request without a number.
type Key struct {
	Writer string
	Seq    int64
}

// Write stores one request. It runs under the lock of the run's row and may run more than once, each time
// in another transaction. What can be written without reading goes into the batch, which is sent last.
type Write func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error

// All is several writes as one.
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
	// Digest is of the body that came under Key; without a Key it is not looked at.
	Digest Digest
	Write  Write
	// Unfenced items are stored for older attempts too.
	Unfenced bool
}

// Run is the locked row of a run, and what the group has made of it so far.
type Run struct {
	ID                string
	Attempt           int32
	LineSeq, BatchSeq int64
	Keys              int32
	Now               time.Time
	// Memo is where writes of one group leave word for each other.
	Memo map[any]any
	// Fresh tells followers that there is something to read.
	Fresh bool

	committed []func()
}

// Committed asks for a call once the group is committed.
func (r *Run) Committed(fn func()) { r.committed = append(r.committed, fn) }

// Bounds of a group and of what waits for one.
const (
	maxGroup     = 256
	maxQueue     = 1024
	groupTimeout = 20 * time.Second
)

// Committer stores items. Run must run for items to be stored.
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

// lanes is how many flushers there are; a run's items are always one flusher's.
const lanes = 2

// New makes a committer. changed is told after each commit which runs have news for followers; it must
// not wait.
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

// Store stores an item and answers after its commit; repeated says that it had been stored before. An
// error of a context that ended leaves open whether it is stored: the same request again finds out.
func (c *Committer) Store(ctx context.Context, item Item) (repeated bool, err error) {
	w := &waiting{Item: item, result: make(chan result, 1)}
	lane := c.lanes[maphash.String(c.seed, item.RunID)%uint64(len(c.lanes))]
	select {
	case lane <- w:
	default:
		return false, fault.New(fault.Unavailable, "ingest_busy", "too many reports wait to be stored")
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

// Run stores what queues until ctx ends. A group that has begun is finished.
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

// gather takes what has queued.
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

// group stores items together, and one by one where that fails: then each has its own fault.
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
