package traffic

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

const (
	// batchEvery is how long a call waits for others before it is stored.
	batchEvery = 20 * time.Millisecond
	// batchMax is the maximum number of calls in a batch.
	batchMax = 2000
	// ringSize is how many calls may wait in memory.
	ringSize = 16384
	// putTimeout is how long the database may take for a batch before it counts as unavailable.
	putTimeout = 2 * time.Second
	// replayTimeout is how long the database may take for a segment, which can be larger than a batch.
	replayTimeout = 20 * time.Second
	// replayEvery is how often spilled segments are replayed.
	replayEvery = 2 * time.Second
	// emptyWithin is how long the recorder may take to store the spilled calls when it stops.
	emptyWithin = 2 * time.Second
	// emptyEvery is the pause after an attempt that failed.
	emptyEvery = 50 * time.Millisecond
	// lockEvery is how often the recorder tries to lock the spool while another process uses it.
	lockEvery = 100 * time.Millisecond
)

// errWaiting is the error of Own while another process uses the folder of the spool.
var errWaiting = errors.New("another process uses the folder of SERVICE_INFERENCE_SPOOL; this one starts when that process has ended")

// store stores batches of calls.
type store interface {
	// Put stores a batch, unless a batch with that name is already stored. It returns the number of calls that the
	// table refused.
	Put(ctx context.Context, name string, calls []*Call) (refused int, err error)
	// Forget deletes the names of batches that will not be put again.
	Forget(ctx context.Context, names ...string) error
}

// counter counts calls that were spilled to disk or lost.
type counter interface {
	Spilled(ctx context.Context, calls int)
	Dropped(ctx context.Context, calls int)
}

// Recorder takes calls from the request path and stores them in batches.
type Recorder struct {
	store store
	spool *Spool
	clock clock.Clock
	log   *slog.Logger
	count counter
	ring  chan *Call
	away  bool
	done  []string // names of stored batches that the store has not deleted yet

	mu     sync.RWMutex
	closed bool // no more calls are put into the ring
	owned  bool // no other process uses the folder of the spool
	waited bool // it has been logged that another process uses it
}

// NewRecorder returns a recorder. Run must be started for calls to be stored.
func NewRecorder(s store, spool *Spool, clk clock.Clock, log *slog.Logger, count counter) *Recorder {
	return &Recorder{store: s, spool: spool, clock: clk, log: log, count: count, ring: make(chan *Call, ringSize)}
}

// Record takes a call. It does not block, except for a write to the local disk if the ring is full or the
// recorder has stopped.
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

// Own reserves the folder of the spool for this process, unless it has done so before. It returns errWaiting while another
// process uses the folder, because that process may still append to its segments. If the folder cannot be locked for
// another reason, such as a full disk, Own only logs it.
func (r *Recorder) Own(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owned {
		return nil
	}
	fresh, err := r.spool.Lock()
	switch {
	case errors.Is(err, localfile.ErrLocked):
		if !r.waited {
			r.log.WarnContext(ctx, errWaiting.Error(), "folder", r.spool.dir)
		}
		r.waited = true
		return errWaiting
	case err != nil:
		r.log.WarnContext(ctx, "cannot lock the folder of SERVICE_INFERENCE_SPOOL", "error", err)
	case fresh:
		r.log.InfoContext(ctx, "the folder of SERVICE_INFERENCE_SPOOL is new; if this replica replaces one that had another folder, "+
			"revocations wait for the lease of that replica and its unsent records of calls are missing", "folder", r.spool.dir)
	}
	r.owned = true
	return nil
}

// Run waits until no other process uses the folder of the spool. It then stores calls until ctx ends, and finally the
// calls that are in memory and in the spool. Later calls are written to disk.
func (r *Recorder) Run(ctx context.Context) error {
	for r.Own(ctx) != nil {
		if err := clock.Sleep(ctx, r.clock, lockEvery); err != nil {
			return err
		}
	}
	return errors.Join(r.keep(ctx), r.spool.Unlock())
}

// keep stores calls until ctx ends, and then empties the ring and the spool.
func (r *Recorder) keep(ctx context.Context) error {
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

// gather collects the calls of a batch: those that arrive within batchEvery, and those that are in the ring at the end
// of that time. It stops early at batchMax calls or when ctx ends.
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

// take adds the calls in the ring to the batch without blocking. Nothing else may read the ring at the same time.
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
	r.empty(ctx)
	r.forget(ctx)
	return r.spool.Close()
}

// empty stores the calls in the spool, so that a planned stop leaves none in a folder that may not be used again. It
// tries again after an error, because connections from before an absence of the database are broken. It gives up after
// emptyWithin. The next process that uses the folder stores the rest.
func (r *Recorder) empty(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, emptyWithin)
	defer cancel()
	for {
		r.replay(within)
		left, err := r.spool.Segments()
		if err != nil || len(left) == 0 {
			return
		}
		if clock.Sleep(within, r.clock, emptyEvery) != nil {
			r.log.WarnContext(ctx, "records of calls stay in the folder of SERVICE_INFERENCE_SPOOL; the next process that uses it stores them",
				"folder", r.spool.dir, "segments", len(left))
			return
		}
	}
}

// put stores one batch, or writes it to disk if the database is unavailable.
func (r *Recorder) put(ctx context.Context, batch []*Call) {
	ctx = context.WithoutCancel(ctx)
	name := r.spool.Name()
	// While the database is unavailable, only replay uses it, so that not every batch waits for a timeout.
	if r.away {
		r.spill(ctx, name, batch, true)
		return
	}
	within, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	refused, err := r.store.Put(within, name, batch)
	if err != nil {
		r.away = true
		r.log.WarnContext(ctx, "database unavailable; calls are written to disk", "error", err, "calls", len(batch))
		// Keep the name of the batch and write a separate segment, because the database may have stored the batch
		// although Put failed.
		r.spill(ctx, name, batch, false)
		return
	}
	r.stored(ctx, name, refused)
}

// stored reports the calls of a stored batch that were refused, and remembers the name of the batch for the method
// forget.
func (r *Recorder) stored(ctx context.Context, name string, refused int) {
	if refused > 0 {
		r.count.Dropped(ctx, refused)
		r.log.ErrorContext(ctx, "calls lost: the database rejects their data", "calls", refused)
	}
	if r.done = append(r.done, name); len(r.done) >= forgetAt {
		r.forget(ctx)
	}
}

// forgetAt is how many names are collected before they are deleted.
const forgetAt = 50

func (r *Recorder) forget(ctx context.Context) {
	if len(r.done) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := r.store.Forget(ctx, r.done...); err != nil {
		if ctx.Err() == nil {
			r.log.WarnContext(ctx, "cannot delete the names of stored batches", "error", err, "names", len(r.done))
		}
		return
	}
	r.done = r.done[:0]
}

// spill writes calls to disk: to the open segment if join is set, otherwise to a separate segment with the given name.
func (r *Recorder) spill(ctx context.Context, name string, batch []*Call, join bool) {
	write := r.spool.Write
	if join {
		write = r.spool.Append
	}
	if err := write(name, batch); err != nil {
		r.count.Dropped(ctx, len(batch))
		r.log.ErrorContext(ctx, "calls lost: cannot write them to disk", "error", err, "calls", len(batch))
		return
	}
	r.count.Spilled(ctx, len(batch))
}

// replay stores the spilled segments, oldest first, until storing one fails.
func (r *Recorder) replay(ctx context.Context) {
	segments, err := r.spool.Segments()
	if err != nil {
		r.log.ErrorContext(ctx, "cannot list spilled calls", "error", err)
		return
	}
	for _, name := range segments {
		if ctx.Err() != nil {
			return
		}
		if err := r.replayOne(ctx, name); err != nil {
			r.log.WarnContext(ctx, "cannot store spilled calls", "error", err, "segment", name)
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
		r.log.ErrorContext(ctx, "calls lost: unreadable lines in a segment", "segment", name, "lines", unread)
	}
	refused, err := r.store.Put(ctx, name, calls)
	if err != nil {
		return err
	}
	// Remove the file before the name. In the opposite order, a crash in between would store the calls twice.
	if err := r.spool.Remove(name); err != nil {
		return err
	}
	r.stored(ctx, name, refused)
	return nil
}
