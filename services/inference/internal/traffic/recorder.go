package traffic

import (
	"context"
	"log/slog"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	// batchEvery is how long a call waits for others before it is stored.
	batchEvery = 20 * time.Millisecond
	batchMax   = 2000
	ringSize   = 16384
	// copyTimeout is how long the database may take for a batch before it counts as away.
	copyTimeout = 5 * time.Second
	// replayEvery is how often a spilled segment is tried.
	replayEvery = 2 * time.Second
)

// store takes batches.
type store interface {
	Copy(ctx context.Context, calls []*Call) error
	Replay(ctx context.Context, segment string, calls []*Call) error
}

// Recorder takes calls from the request path and brings them to the store.
type Recorder struct {
	store store
	spool *Spool
	clock clock.Clock
	log   *slog.Logger
	ring  chan *Call
	away  bool
}

// NewRecorder makes a recorder.
func NewRecorder(s store, spool *Spool, clk clock.Clock, log *slog.Logger) *Recorder {
	return &Recorder{store: s, spool: spool, clock: clk, log: log, ring: make(chan *Call, ringSize)}
}

// Record takes a call. It waits for nothing but, with the ring full, a write to the local disk.
func (r *Recorder) Record(ctx context.Context, c *Call) {
	select {
	case r.ring <- c:
	default:
		r.spill(ctx, []*Call{c})
	}
}

// Run stores calls until ctx ends, then what is still held.
func (r *Recorder) Run(ctx context.Context) error {
	replay := r.clock.NewTicker(replayEvery)
	defer replay.Stop()
	r.replay(ctx)
	for {
		select {
		case c := <-r.ring:
			r.store1(ctx, r.gather(ctx, c))
		case <-replay.C():
			r.replay(ctx)
		case <-ctx.Done():
			return r.drain(context.WithoutCancel(ctx))
		}
	}
}

// gather collects what comes within the batch interval.
func (r *Recorder) gather(ctx context.Context, first *Call) []*Call {
	batch := []*Call{first}
	timer := r.clock.NewTimer(batchEvery)
	defer timer.Stop()
	for len(batch) < batchMax {
		select {
		case c := <-r.ring:
			batch = append(batch, c)
		case <-timer.C():
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

func (r *Recorder) drain(ctx context.Context) error {
	for {
		batch := make([]*Call, 0, batchMax)
		for len(batch) < batchMax && len(r.ring) > 0 {
			batch = append(batch, <-r.ring)
		}
		if len(batch) == 0 {
			return nil
		}
		r.store1(ctx, batch)
	}
}

// store1 stores one batch, on the disk where the database does not take it.
func (r *Recorder) store1(ctx context.Context, batch []*Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTimeout)
	defer cancel()
	// While the database is away, only the replay asks it: a batch must not wait for its timeout each time.
	if r.away {
		r.spill(ctx, batch)
		return
	}
	if err := r.store.Copy(ctx, batch); err != nil {
		r.away = true
		r.log.WarnContext(ctx, "calls go to the disk until the database is back", "error", err, "calls", len(batch))
		r.spill(ctx, batch)
	}
}

func (r *Recorder) spill(ctx context.Context, batch []*Call) {
	if err := r.spool.Append(batch); err != nil {
		r.log.ErrorContext(ctx, "calls are lost from the record", "error", err, "calls", len(batch))
	}
}

// replay brings spilled segments to the store, oldest first, until one is refused.
func (r *Recorder) replay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	segments, err := r.spool.Segments()
	if err != nil {
		r.log.ErrorContext(ctx, "look for spilled calls", "error", err)
		return
	}
	for _, name := range segments {
		calls, err := r.spool.Read(name)
		if err == nil {
			err = r.store.Replay(ctx, name, calls)
		}
		if err == nil {
			err = r.spool.Remove(name)
		}
		if err != nil {
			r.log.WarnContext(ctx, "spilled calls wait", "error", err, "segment", name)
			return
		}
	}
	r.away = false
}
