package follow

import (
	"context"
	"errors"
	"sync"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Page holds the events that follow a position of a stream, in order. Owner is the owner of the run, read before the
// events. Last is the position of the last event. End reports that no more events will follow; State is then the final
// state of the run. Notes are events without a position, which a page without other events may have. They stand for
// something that changes: NoteKey identifies its present value, and is empty for the value that needs no events.
type Page[E any] struct {
	Owner   run.Owner
	Events  []E
	Last    int64
	End     bool
	State   string
	Notes   []E
	NoteKey string
}

// Read is a function that reads the page after the given position from the store.
type Read[E any] func(ctx context.Context, runID string, after int64) (Page[E], error)

// Streams serves the followers of one kind of stream, for all runs. Followers at the same position share reads.
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

// shared is a read of one page, which the followers at the same position share during one round.
type shared[E any] struct {
	round uint64
	users int
	done  chan struct{}
	page  Page[E]
	err   error
}

// NewStreams returns the streams of one kind.
func NewStreams[E any](hub *Hub, read Read[E]) *Streams[E] {
	return &Streams[E]{hub: hub, read: read, reads: map[place]*shared[E]{}}
}

// Follow passes every page after a position to the function send, until the stream ends, ctx ends, or a read or send
// fails. It reads pages until a page is empty, and then waits for the next wake-up before it reads again. An empty page
// is also sent: it confirms that the position is valid and states the current owner of the run. The notes of a page are
// sent only if their key has changed. At the end of the stream, Follow returns nil. send may block.
func (s *Streams[E]) Follow(ctx context.Context, runID string, after int64, send func(Page[E]) error) error {
	s.hub.join(runID)
	defer s.hub.leave(runID)
	noted := ""
	for {
		round, next := s.hub.round(runID)
		page, err := s.page(ctx, place{runID, after}, round)
		if err != nil {
			return err
		}
		if page.NoteKey == noted {
			page.Notes = nil
		}
		if len(page.Events) == 0 {
			noted = page.NoteKey
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

// page returns the page that follows the given position. If another follower reads or has read that page in this round,
// page uses the result of that read, unless the read failed.
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
	// The shared read failed, perhaps only because the other follower's context ended. Read the page for this follower.
	return s.read(ctx, at.run, at.after)
}

// errUnread is the error of a shared read until the read is done. It stays set if the function read panics.
var errUnread = errors.New("the page was not read")

// enter joins a read at the given position that began in this round or a later one. If no such read is registered,
// enter registers a new read and returns mine = true: the caller must perform the read.
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

// leave removes a shared read when its last user leaves.
func (s *Streams[E]) leave(at place, r *shared[E]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.users--; r.users == 0 && s.reads[at] == r {
		delete(s.reads, at)
	}
}
