package engineclient

import (
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// forgetAfter is how long the state of an engine without calls is kept.
const forgetAfter = 15 * time.Minute

// silences measures for each engine how long no call got a byte.
type silences struct {
	mu      sync.Mutex
	engines map[Engine]*silence
}

// silence is the state of one engine.
type silence struct {
	waiting int       // calls that are open
	held    int       // calls for which a part of the response is being written to the caller
	since   time.Time // when the last byte arrived or, if no call was open then, when the next call began
	heard   time.Time // when the last byte arrived; zero if none has
}

// wait is one open call.
type wait struct {
	of    *silences
	to    Engine
	clock clock.Clock
	over  bool
	held  bool
}

// begin registers a call.
func (s *silences) begin(to Engine, clk clock.Clock) *wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engines == nil {
		s.engines = map[Engine]*silence{}
	}
	now := clk.Now()
	e := s.engines[to]
	if e == nil {
		e = &silence{since: now}
		s.engines[to] = e
	}
	// If callers give up before a byte arrives, the silence continues with the next call.
	if e.waiting == 0 && !e.heard.Before(e.since) {
		e.since = now
	}
	e.waiting++
	return &wait{of: s, to: to, clock: clk}
}

// byte records that the engine has sent something.
func (w *wait) byte() { w.of.byte(w.to, w.clock.Now()) }

// byte records that an engine has sent something.
func (s *silences) byte(to Engine, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.engines[to]; e != nil {
		e.heard, e.since = now, now
	}
}

// hold records whether a part of the response is being written to the caller. If the caller reads slowly, the engine
// may have to wait, and so may its other calls. So the engine does not count as silent during the write.
func (w *wait) hold(yes bool) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.holdLocked(yes)
}

func (w *wait) holdLocked(yes bool) {
	e := w.of.engines[w.to]
	if e == nil || w.held == yes || w.over {
		return // The last write to the caller may end after the call.
	}
	if w.held = yes; yes {
		e.held++
		return
	}
	e.held--
	e.heard = w.clock.Now()
	e.since = e.heard
}

// end unregisters the call. It may be called several times.
func (w *wait) end() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.holdLocked(false)
	if e := w.of.engines[w.to]; e != nil && !w.over {
		e.waiting--
	}
	w.over = true
}

// silent returns the engines that have open calls and have sent no byte for at least the given time. The values are the
// times since the last byte.
func (s *silences) silent(least time.Duration, now time.Time) map[Engine]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[Engine]time.Duration{}
	for to, e := range s.engines {
		quiet := now.Sub(e.since)
		switch {
		case e.waiting > 0 && e.held == 0 && quiet >= least:
			found[to] = quiet
		case e.waiting == 0 && quiet > forgetAfter:
			delete(s.engines, to)
		}
	}
	return found
}

// heardAgo returns how long ago the last byte of an engine arrived, and false if none has.
func (s *silences) heardAgo(to Engine, now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.engines[to]
	if e == nil || e.heard.IsZero() {
		return 0, false
	}
	if e.held > 0 {
		return 0, true
	}
	return now.Sub(e.heard), true
}
