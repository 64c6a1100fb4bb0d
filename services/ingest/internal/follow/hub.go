// Package follow owns live reading. A follower reads a run's stream from the store and waits at the stream's current
// end. The package promises that a follower receives every event once and in order, no matter how often it is woken.
// Followers at the same position of a stream share one read per wake-up. A waiting follower gets a page with the
// current owner of the run at least once every pollEvery. A slow follower needs no buffer: only its position is
// stored, and it later continues to read from that position. Wakeups tell the followers of other replicas about new
// data.
package follow

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// pollEvery is how often Run wakes all followers.
const pollEvery = 800 * time.Millisecond

// Hub wakes the followers of runs.
type Hub struct {
	clock clock.Clock

	mu     sync.Mutex
	topics map[string]*topic
}

// topic counts the rounds of one run. A round lasts from one wake-up of the run's followers to the next. When the
// channel next is closed, the followers wake.
type topic struct {
	followers int
	round     uint64
	next      chan struct{}
}

// NewHub returns a hub without followers. Run and Listen wake the followers, so both must be called.
func NewHub(clk clock.Clock) *Hub { return &Hub{clock: clk, topics: map[string]*topic{}} }

// Wake begins a new round of each given run that has followers. It does not block.
func (h *Hub) Wake(runs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range runs {
		if t := h.topics[id]; t != nil {
			t.begin()
		}
	}
}

// WakeAll begins a new round of every run that has followers. It is called regularly, and when a notification may have
// been lost.
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

// Run wakes all followers every pollEvery, so that a lost notification delays them by at most pollEvery.
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

// round returns the current round of a run, and a channel that is closed when the next round begins.
func (h *Hub) round(runID string) (uint64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[runID]
	return t.round, t.next
}
