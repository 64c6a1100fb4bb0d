// Package groupcommit makes reports durable. Requests wait in queues. A flusher stores the waiting requests of its
// queue as a group in one transaction, and each request gets its response after the commit. The package promises that a
// numbered request of a writer is stored once, in the same transaction as its number; that a request with a number that
// was used before and with another body is rejected; that only one group at a time writes the rows of a run; and that
// an invalid request does not make the other requests of its group fail or need a transaction each.
package groupcommit

import (
	"context"
	"hash/maphash"
	"runtime"
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

// Write stores one request while the run's row is locked. It may be called again in another transaction. If it does not
// need the result of a statement, it should add the statement to batch, which is sent last, or call Run.Insert. It should check whether the
// request may be stored before it changes anything, and return Refuse(reason) if not: the rest of the group then
// continues in the same transaction. After any other error the group begins again without the request.
type Write func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error

// Refuse marks the error of a write that has changed neither rows through tx nor values in Memo. The statements that
// the write added to batch, its rows and its changes to the other fields of Run are undone.
func Refuse(err error) error { return &refusal{err} }

type refusal struct{ error }

// Unwrap returns the reason.
func (r *refusal) Unwrap() error { return r.error }

// All returns a write that calls the given writes in order, until one fails. If a write may refuse, the writes before
// it must not change rows through tx.
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
	// ResumeStep is the step of the checkpoint with which the platform started the attempt, or nil.
	ResumeStep *int64
	Stream     string
	Key        Key
	// Former is the name under which earlier requests of the writer may be stored, if it was not Key.Writer. Their rows
	// are renamed, so that their numbers stay known.
	Former string
	// Earlier is the name under which a request with this number and body can be stored only by an earlier version, or
	// empty. The item is then a repeat. Other requests may have this name and number, so their rows stay as they are.
	Earlier string
	// Digest is the digest of the body. It is ignored if Key is zero.
	Digest Digest
	Write  Write
	// Kind is the kind of data that the item adds to the run, and Size is the size of this data in bytes. An item
	// without a Size is always stored.
	Kind Kind
	Size int64
	// Newest is the time of the newest metric point of the item, or zero.
	Newest time.Time
	// Over is called instead of Write if the item would make the run exceed the limit of the item's kind of data. The
	// request of the item then succeeds, but no row is added for the number in Key. If Over is nil, the request is refused.
	Over Write
	// Fence is the error for an item that may not be stored unless it is a repeat, or nil.
	Fence error
	// Unfenced items are stored even if Fence is set, a newer attempt has replaced the attempt of the item, or the run is
	// closed.
	Unfenced bool
}

// Run is the locked row of a run, with the changes of the group so far.
type Run struct {
	ID                string
	Attempt           int32
	ResumeStep        *int64 // of the current item
	LineSeq, BatchSeq int64
	Keys              int32
	// KeyMoves is how often ranks have taken series that are older than ranks.
	KeyMoves int32
	// Scores and Rollouts are the numbers of stored scores and rollouts, or nil if they have not been counted yet. A write
	// that changes them replaces the pointer.
	Scores, Rollouts *int32
	Now              time.Time
	// Closed means that the run accepts no new reports.
	Closed bool
	// LogCut means that the log already has the line which states that the rest is not stored.
	LogCut bool
	// Memo passes values between the writes of one group. Flush clears it.
	Memo map[any]any
	// Fresh must be set by a write if followers must be notified of the data.
	Fresh bool

	size      [kinds]int64 // size of the data in bytes, by kind
	rows      []row
	committed []func()
	flushed   bool // the write of the current item has called Flush
}

// Committed registers a function that is called after the commit of the group, even if the write that registered it
// refuses its request. It is not called if the group fails.
func (r *Run) Committed(fn func()) { r.committed = append(r.committed, fn) }

// The maximum number of items in a group and in the queue of each flusher, and the time limit of a group's transaction.
const (
	maxGroup     = 256
	maxQueue     = 1024
	groupTimeout = 20 * time.Second
)

// Committer stores items. It stores them only while Run is running.
type Committer struct {
	// Meters measures the commits. It may be nil, and must not change once Store was called.
	Meters *Meters

	pool    *pgxpool.Pool
	clock   clock.Clock
	changed func(runs []string)
	notices *notifier
	quota   *Quota

	seed     maphash.Seed
	lanes    []chan *waiting
	turns    chan struct{} // has an element while the flusher whose turn it is stores its group
	stopped  chan struct{}
	stopOnce sync.Once
}

type waiting struct {
	Item
	left   <-chan struct{} // closed when the caller no longer waits for the result
	result chan result
}

// abandoned reports whether the caller no longer waits.
func (w *waiting) abandoned() bool {
	select {
	case <-w.left:
		return true
	default:
		return false
	}
}

type result struct {
	repeated bool
	over     bool // Over was called
	err      error
}

// lanes is the number of flushers. All items of a run go to the same flusher. maxTurn is how long a flusher waits for the
// group of the other one.
const (
	lanes   = 2
	maxTurn = 20 * time.Millisecond
)

// New returns a committer. After each commit, the committer calls changed with the runs whose followers must be
// notified. changed must not block.
func New(pool *pgxpool.Pool, clk clock.Clock, quota *Quota, changed func(runs []string)) *Committer {
	c := &Committer{
		pool: pool, clock: clk, changed: changed, notices: newNotifier(pool, clk), quota: quota, seed: maphash.MakeSeed(),
		lanes: make([]chan *waiting, lanes), turns: make(chan struct{}, 1), stopped: make(chan struct{}),
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
	begun := c.clock.Now()
	w := &waiting{Item: item, left: ctx.Done(), result: make(chan result, 1)}
	lane := c.lanes[maphash.String(c.seed, item.RunID)%uint64(len(c.lanes))]
	select {
	case lane <- w:
	default:
		return false, fault.New(fault.Unavailable, "ingest_busy", "too many reports are waiting to be stored; try again later")
	}
	select {
	case r := <-w.result:
		if r.over {
			c.quota.count(ctx, item.Kind)
		}
		if r.err == nil {
			c.Meters.stored(ctx, &item, r.repeated, begun, c.clock.Now())
		}
		return r.repeated, r.err
	case <-ctx.Done():
		return false, fault.FromContext(ctx.Err())
	case <-c.stopped:
		return false, stopping()
	}
}

func stopping() error { return fault.New(fault.Unavailable, "draining", "the server is shutting down") }

// Run stores queued items until ctx ends. It finishes groups that have begun, and announces their commits to the other
// replicas.
func (c *Committer) Run(ctx context.Context) error {
	defer c.stopOnce.Do(func() { close(c.stopped) })
	announcing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var flushers, announcer sync.WaitGroup
	announcer.Go(func() { c.notices.run(announcing) })
	for _, lane := range c.lanes {
		flushers.Go(func() { c.flush(ctx, lane) })
	}
	flushers.Wait()
	end()
	announcer.Wait()
	return ctx.Err()
}

func (c *Committer) flush(ctx context.Context, lane chan *waiting) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-lane:
			end := c.turn()
			// Requests that are ready to run on a busy machine join the group, because a transaction costs more than they do.
			runtime.Gosched()
			c.group(context.WithoutCancel(ctx), gather(first, lane))
			end()
		}
	}
}

// turn waits until no other flusher stores a group, and returns the function that lets the others continue. The requests that
// arrive meanwhile join the group: few large groups cost the database less than many small ones. turn waits for maxTurn at
// most, so that a group that has to wait for the lock of a run delays the other flusher's runs only a little.
func (c *Committer) turn() (end func()) {
	timer := c.clock.NewTimer(maxTurn)
	defer timer.Stop()
	select {
	case c.turns <- struct{}{}:
		return func() { <-c.turns }
	case <-timer.C():
		return func() {}
	}
}

// gather returns the first item and the items that are queued behind it, at most maxGroup items in total.
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
