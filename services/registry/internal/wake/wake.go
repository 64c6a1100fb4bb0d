// Package wake tells goroutines on every replica that rows have changed. It promises nothing but
// speed: a wake-up may be lost or doubled, so whoever waits looks at the rows and also looks from
// time to time by itself.
package wake

import (
	"context"
	"fmt"
	"sync"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Topic is what a wake-up is about.
type Topic string

// The topics.
const (
	// Snapshot: what inference serves by has changed.
	Snapshot Topic = "snapshot"
	// Acks: a replica of inference has put a newer snapshot in force.
	Acks Topic = "acks"
	// All wakes everyone: the listener lost its connection and may have missed something.
	All Topic = "*"
)

// channelSQL names the channel of this schema: replicas of other installations in the same database
// are not woken.
const channelSQL = `current_schema() || '_wake'`

// Notify wakes the topic on every replica when the transaction commits.
func Notify(ctx context.Context, q pg.Querier, topic Topic) error {
	if _, err := q.Exec(ctx, `SELECT pg_notify(`+channelSQL+`, $1)`, string(topic)); err != nil {
		return fmt.Errorf("wake %s: %w", topic, err)
	}
	return nil
}

// Hub hands wake-ups to this replica's waiters.
type Hub struct {
	mu      sync.Mutex
	waiters map[Topic]map[*Waiter]struct{}
}

// NewHub makes a hub without waiters.
func NewHub() *Hub { return &Hub{waiters: map[Topic]map[*Waiter]struct{}{}} }

// Waiter is woken by some topics; wake-ups that come while it is busy are one.
type Waiter struct {
	C      <-chan struct{}
	c      chan struct{}
	hub    *Hub
	topics []Topic
}

// Wait starts to collect the wake-ups of these topics. The caller closes the waiter.
func (h *Hub) Wait(topics ...Topic) *Waiter {
	c := make(chan struct{}, 1)
	w := &Waiter{C: c, c: c, hub: h, topics: append([]Topic{All}, topics...)}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range w.topics {
		if h.waiters[t] == nil {
			h.waiters[t] = map[*Waiter]struct{}{}
		}
		h.waiters[t][w] = struct{}{}
	}
	return w
}

// Close ends the waiter.
func (w *Waiter) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, t := range w.topics {
		delete(w.hub.waiters[t], w)
		if len(w.hub.waiters[t]) == 0 {
			delete(w.hub.waiters, t)
		}
	}
}

// Wake wakes the waiters of a topic on this replica.
func (h *Hub) Wake(topic Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiters[topic] {
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}
