package httpguard

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// minIdle is how long a connection must have been idle before a stopping server closes it. The time counts from the
// last request on the connection or from the beginning of the stop, whichever is later. A client that reuses its
// connections sends a request on each of them in this time, and the response to that request ends the connection. If
// the server closed an idle connection at once, a request could already be on its way, and the client would have to
// treat it as lost. nginx has keepalive_min_timeout for the same reason.
// Clients repeat an ignored attempt to connect after a second; minIdle is longer, so that the server does not close
// connections just when these clients return.
const minIdle = 1500 * time.Millisecond

// connections holds the open connections of a listener.
type connections struct {
	elapsed func() time.Duration
	// awaited is true while awaitIdle runs. changed then holds a value if a connection has changed its state since the last
	// value was received.
	awaited atomic.Bool
	changed chan struct{}

	mu   sync.Mutex
	open map[*use]struct{}
}

// use is how a connection is used.
type use struct {
	// active is true from the first byte of a request until its response was sent.
	active atomic.Bool
	// idleSince is the elapsed time at which the last request ended or, if there was none, the connection was accepted.
	idleSince atomic.Int64
}

// set records the new state of a connection.
func (s *connections) set(c *conn, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateIdle:
		c.relayed.armed = time.Time{} // the server sets its own deadline
		c.handed.Store(false)
	case http.StateActive:
		c.handed.Store(true)
	case http.StateHijacked, http.StateClosed:
		c.over.Store(state == http.StateHijacked)
	}
	s.track(&c.use, state)
}

// track records the new state of a connection for awaitIdle.
func (s *connections) track(u *use, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateIdle:
		// A new connection counts as idle: net/http closes connections without a response if it reads their first request
		// during a shutdown.
		s.idle(u)
	case http.StateActive:
		u.active.Store(true)
	case http.StateHijacked, http.StateClosed:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.open[u] = struct{}{}
	case http.StateHijacked, http.StateClosed:
		delete(s.open, u)
	case http.StateActive, http.StateIdle:
	}
	s.notify()
}

// idle records that a connection has become idle.
func (s *connections) idle(u *use) {
	u.idleSince.Store(int64(s.elapsed()))
	u.active.Store(false)
}

// notify wakes awaitIdle, because a connection has changed its state.
func (s *connections) notify() {
	if !s.awaited.Load() {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// unused returns the time after which, without further requests, each connection has been idle for minIdle since the
// stop began. The result active is true if a connection has an open request.
func (s *connections) unused(began time.Duration) (longest time.Duration, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.elapsed()
	for u := range s.open {
		if u.active.Load() {
			active = true
			continue
		}
		longest = max(longest, minIdle-(now-max(began, time.Duration(u.idleSince.Load()))))
	}
	return longest, active
}

// awaitIdle waits until no connection has an open request and each has been idle for minIdle since the stop began, or
// until ctx ends. If ctx ends before the connections can have been idle for that long, it does not wait for them. It also
// waits for open requests because a stopping server closes their connections without announcing
// this in the response.
func (s *connections) awaitIdle(ctx context.Context, began time.Duration) {
	s.awaited.Store(true) // before it looks at the connections
	for ctx.Err() == nil {
		rest, active := s.unused(began)
		if !active && (rest <= 0 || endsBefore(ctx, rest)) {
			return
		}
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if !active {
			waiting, cancel = context.WithTimeout(ctx, rest)
		}
		select {
		case <-s.changed:
		case <-waiting.Done():
		}
		cancel()
	}
}

// endsBefore reports whether ctx ends within the given time.
func endsBefore(ctx context.Context, within time.Duration) bool {
	deadline, limited := ctx.Deadline()
	return limited && deadline.Sub(clock.Real().Now()) < within // contexts know no other clock
}
