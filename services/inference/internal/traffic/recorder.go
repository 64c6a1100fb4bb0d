package traffic

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	// batchEvery is how long a call waits for others before it is stored.
	batchEvery = 20 * time.Millisecond
	batchMax   = 2000
	ringSize   = 16384
	// putTimeout is how long the database may take for a batch before it counts as away.
	putTimeout = 2 * time.Second
	// replayTimeout is the same for a segment, which is larger.
	replayTimeout = 20 * time.Second
	// replayEvery is how often spilled segments are tried.
	replayEvery = 2 * time.Second
)

// store takes batches, each name once.
type store interface {
	Put(ctx context.Context, name string, calls []*Call) (refused int, err error)
	Forget(ctx context.Context, names ...string) error
}

// counter counts what a table cannot show.
type counter interface {
	Spilled(ctx context.Context, calls int)
	Dropped(ctx context.Context, calls int)
}

// Recorder takes calls from the request path and brings them to the store.
type Recorder struct {
	store store
	spool *Spool
	clock clock.Clock
	log   *slog.Logger
	count counter
	ring  chan *Call
	away  bool
	done  []string // batches that are stored, their names not yet forgotten

	mu     sync.RWMutex
	closed bool // no one reads the ring any more
}

// NewRecorder makes a recorder.
func NewRecorder(s store, spool *Spool, clk clock.Clock, log *slog.Logger, count counter) *Recorder {
	return &Recorder{store: s, spool: spool, clock: clk, log: log, count: count, ring: make(chan *Call, ringSize)}
}

// Record takes a call. It waits for nothing but, with the ring full or the recorder stopped, a write to
// the local disk.
func (r *Recorder) Record(ctx context.Context, c *Call) {
	if !r.offer(c) {
		r.spill(ctx, r.spool.Name(), []*Call{c}, true)
	}
}

func (r *Recorder) offer(c *Call) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return false
	}
	select {
	case r.ring <- c:
		return true
	default:
		return false
	}
}

// Run stores calls until ctx ends, then what is still held. Calls that come later go to the disk.
func (r *Recorder) Run(ctx context.Context) error {
	replay := r.clock.NewTicker(replayEvery)
	defer replay.Stop()
	r.replay(ctx)
	for {
		select {
		case c := <-r.ring:
			r.put(ctx, r.gather(ctx, c))
		case <-replay.C():
			r.replay(ctx)
		case <-ctx.Done():
			return r.drain(context.WithoutCancel(ctx))
		}
	}
}

// gather collects what comes within the batch interval, all of it: what lies in the ring when the interval
// ends goes along.
func (r *Recorder) gather(ctx context.Context, first *Call) []*Call {
	batch := []*Call{first}
	timer := r.clock.NewTimer(batchEvery)
	defer timer.Stop()
	for len(batch) < batchMax {
		select {
		case c := <-r.ring:
			batch = append(batch, c)
		case <-timer.C():
			return r.take(batch)
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// take adds what lies in the ring, without waiting. Nobody else reads it.
func (r *Recorder) take(batch []*Call) []*Call {
	for len(batch) < batchMax && len(r.ring) > 0 {
		batch = append(batch, <-r.ring)
	}
	return batch
}

func (r *Recorder) drain(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for len(r.ring) > 0 {
		r.put(ctx, r.take(make([]*Call, 0, min(batchMax, len(r.ring)))))
	}
	r.forget(ctx)
	return r.spool.Close()
}

// put stores one batch, on the disk where the database does not take it.
func (r *Recorder) put(ctx context.Context, batch []*Call) {
	ctx = context.WithoutCancel(ctx)
	name := r.spool.Name()
	// While the database is away, only the replay asks it: a batch must not wait for its timeout each time.
	if r.away {
		r.spill(ctx, name, batch, true)
		return
	}
	within, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	refused, err := r.store.Put(within, name, batch)
	if err != nil {
		r.away = true
		r.log.WarnContext(ctx, "calls go to the disk until the database is back", "error", err, "calls", len(batch))
		// Under its name, in a segment of its own: the database may have stored it and not said so.
		r.spill(ctx, name, batch, false)
		return
	}
	r.stored(ctx, name, refused)
}

// stored notes a batch that is in the table and whose name can be forgotten.
func (r *Recorder) stored(ctx context.Context, name string, refused int) {
	if refused > 0 {
		r.count.Dropped(ctx, refused)
		r.log.ErrorContext(ctx, "calls are lost: the table refuses them", "calls", refused)
	}
	if r.done = append(r.done, name); len(r.done) >= forgetAt {
		r.forget(ctx)
	}
}

// forgetAt is how many names are forgotten in one go.
const forgetAt = 50

func (r *Recorder) forget(ctx context.Context) {
	if len(r.done) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := r.store.Forget(ctx, r.done...); err != nil {
		if ctx.Err() == nil {
			r.log.WarnContext(ctx, "names of batches stay", "error", err, "names", len(r.done))
		}
		return
	}
	r.done = r.done[:0]
}

// spill writes calls to the disk: joined to others, or as the segment of that name alone.
func (r *Recorder) spill(ctx context.Context, name string, batch []*Call, join bool) {
	write := r.spool.Write
	if join {
		write = r.spool.Append
	}
	if err := write(name, batch); err != nil {
		r.count.Dropped(ctx, len(batch))
		r.log.ErrorContext(ctx, "calls are lost from the record", "error", err, "calls", len(batch))
		return
	}
	r.count.Spilled(ctx, len(batch))
}

// replay brings spilled segments to the store, oldest first, until one is refused.
func (r *Recorder) replay(ctx context.Context) {
	segments, err := r.spool.Segments()
	if err != nil {
		r.log.ErrorContext(ctx, "look for spilled calls", "error", err)
		return
	}
	for _, name := range segments {
		if ctx.Err() != nil {
			return
		}
		if err := r.replayOne(ctx, name); err != nil {
			r.log.WarnContext(ctx, "spilled calls wait", "error", err, "segment", name)
			return
		}
	}
	r.away = false
}

func (r *Recorder) replayOne(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	calls, unread, err := r.spool.Read(name)
	if err != nil {
		return err
	}
	if unread > 0 {
		r.count.Dropped(ctx, unread)
		r.log.ErrorContext(ctx, "lines of a segment cannot be read", "segment", name, "lines", unread)
	}
	refused, err := r.store.Put(ctx, name, calls)
	if err != nil {
		return err
	}
	// The name outlives the file: the other way round, a stop in between would store it twice.
	if err := r.spool.Remove(name); err != nil {
		return err
	}
	r.stored(ctx, name, refused)
	return nil
}
