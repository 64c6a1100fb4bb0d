// Package follow owns live reading: followers of a run's stream read it from the store and wait where it
// ends for now. It promises that a follower sees every event once and in order whatever wakes it, that
// all followers of a stream at the same place share one read a wake-up, that a follower hears with each read,
// so at least every pollEvery, whose the run is by then, and that a slow follower holds nothing but its own
// place: it reads on from the store.
package follow

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// pollEvery is how long a follower trusts wake-ups alone.
const pollEvery = 800 * time.Millisecond

// Hub wakes the followers of runs.
type Hub struct {
	clock clock.Clock

	mu     sync.Mutex
	topics map[string]*topic
}

// topic is what followers of one run wait for: a new round, begun by closing the former one's channel.
type topic struct {
	followers int
	round     uint64
	next      chan struct{}
}

// NewHub makes a hub.
func NewHub(clk clock.Clock) *Hub { return &Hub{clock: clk, topics: map[string]*topic{}} }

// Wake begins a new round of each run, without waiting for anyone.
func (h *Hub) Wake(runs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range runs {
		if t := h.topics[id]; t != nil {
			t.begin()
		}
	}
}

// WakeAll begins a new round of every run: for when news may have been missed.
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

// Run wakes everyone from time to time, so that a lost wake-up costs no more than that.
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

// round is the run's present round and what closes when the next one begins.
func (h *Hub) round(runID string) (uint64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[runID]
	return t.round, t.next
}
