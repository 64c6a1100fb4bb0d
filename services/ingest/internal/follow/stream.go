package follow

import (
	"context"
	"errors"
	"sync"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Page is some of a stream's events behind a place, in their order. Owner is whose the run was before they were
// read. Last is the place behind them; End says that nothing will ever follow, and how the run ended.
type Page[E any] struct {
	Owner  run.Owner
	Events []E
	Last   int64
	End    bool
	State  string
}

// Read reads a page from the store.
type Read[E any] func(ctx context.Context, runID string, after int64) (Page[E], error)

// Streams are the streams of one kind of all runs, shared by their followers.
type Streams[E any] struct {
	hub  *Hub
	read Read[E]

	mu    sync.Mutex
	reads map[place]*shared[E]
}

type place struct {
	run   string
	after int64
}

// shared is one read that followers at the same place in the same round share.
type shared[E any] struct {
	round uint64
	users int
	done  chan struct{}
	page  Page[E]
	err   error
}

// NewStreams makes the streams of one kind.
func NewStreams[E any](hub *Hub, read Read[E]) *Streams[E] {
	return &Streams[E]{hub: hub, read: read, reads: map[place]*shared[E]{}}
}

// Follow hands on every page behind a place until the end of the stream or of ctx, or until send fails. The first
// one comes at once and one at every wake-up, empty where there is nothing yet: it tells that the place can be
// followed, and whose the run is by now. send may take its time.
func (s *Streams[E]) Follow(ctx context.Context, runID string, after int64, send func(Page[E]) error) error {
	s.hub.join(runID)
	defer s.hub.leave(runID)
	for {
		round, next := s.hub.round(runID)
		page, err := s.page(ctx, place{runID, after}, round)
		if err != nil {
			return err
		}
		if err := send(page); err != nil || page.End {
			return err
		}
		if len(page.Events) > 0 {
			after = page.Last
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// page reads a place, or waits for the follower that reads it in the same round.
func (s *Streams[E]) page(ctx context.Context, at place, round uint64) (Page[E], error) {
	r, mine := s.enter(at, round)
	defer s.leave(at, r)
	if mine {
		defer close(r.done)
		r.err = errUnread
		r.page, r.err = s.read(ctx, at.run, at.after)
		return r.page, r.err
	}
	select {
	case <-ctx.Done():
		return Page[E]{}, ctx.Err()
	case <-r.done:
	}
	if r.err == nil {
		return r.page, nil
	}
	// Its reader may have gone away: read for oneself.
	return s.read(ctx, at.run, at.after)
}

// errUnread stands while a page is being read.
var errUnread = errors.New("the page was not read")

// enter joins the read of a place, which is of use in its round.
func (s *Streams[E]) enter(at place, round uint64) (r *shared[E], mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.reads[at]; r != nil && r.round >= round {
		r.users++
		return r, false
	}
	r = &shared[E]{round: round, users: 1, done: make(chan struct{})}
	s.reads[at] = r
	return r, true
}

// leave forgets a read that nobody uses any more.
func (s *Streams[E]) leave(at place, r *shared[E]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.users--; r.users == 0 && s.reads[at] == r {
		delete(s.reads, at)
	}
}
