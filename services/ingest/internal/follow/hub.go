// Package follow owns live reading. Followers read a run's stream from the store and wait at its current end. The
// package promises that a follower receives every event once and in order, whatever wakes it; that all followers of a
// stream at the same place share one read per wake-up; that every page, and so at least one every pollEvery, states the
// run's current owner; and that a slow follower occupies no memory except its own place, from which it continues
// to read the store.
package follow

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// pollEvery is the interval after which followers read without a wake-up.
const pollEvery = 800 * time.Millisecond

// Hub wakes the followers of runs.
type Hub struct {
	clock clock.Clock

	mu     sync.Mutex
	topics map[string]*topic
}

// topic counts the rounds of one run. Closing next begins a new round and wakes the run's followers.
type topic struct {
	followers int
	round     uint64
	next      chan struct{}
}

// NewHub returns a hub without followers.
func NewHub(clk clock.Clock) *Hub { return &Hub{clock: clk, topics: map[string]*topic{}} }

// Wake begins a new round of each run. It does not block.
func (h *Hub) Wake(runs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range runs {
		if t := h.topics[id]; t != nil {
			t.begin()
		}
	}
}

// WakeAll begins a new round of every run. It is for cases in which a notification may have been lost.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.begin()
	}
}

func (t *topic) begin() {
	t.round++
	close(t.next)
	t.next = make(chan struct{})
}

// Run wakes all followers every pollEvery, which bounds the delay after a lost wake-up.
func (h *Hub) Run(ctx context.Context) error {
	tick := h.clock.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C():
			h.WakeAll()
		}
	}
}

func (h *Hub) join(runID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[runID]
	if t == nil {
		t = &topic{next: make(chan struct{})}
		h.topics[runID] = t
	}
	t.followers++
}

func (h *Hub) leave(runID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[runID]
	if t.followers--; t.followers == 0 {
		delete(h.topics, runID)
	}
}

// round returns the current round of a run and the channel that closes when the next one begins.
func (h *Hub) round(runID string) (uint64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[runID]
	return t.round, t.next
}
