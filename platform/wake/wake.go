// Package wake tells goroutines on every replica of a service that rows have changed. It promises
// nothing but speed: a wake-up may be lost or doubled, so whoever waits looks at the rows and also looks
// from time to time by itself.
//
// A wake-up that was sent in a transaction comes when it commits and never when it does not. Services
// and other installations in the same database are not woken.
package wake

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Topic is what a wake-up is about. Each service has its own.
type Topic string

// All wakes everyone: the listener lost its connection and may have missed something.
const All Topic = "*"

// channelSQL names the channel of this schema.
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

// Listen hands on the wake-ups of all replicas until ctx ends or the connection is lost. It holds
// one connection of its own. At its start it wakes everyone: what was told before is missed.
func (h *Hub) Listen(ctx context.Context, pool *pgxpool.Pool) error {
	var channel string
	if err := pool.QueryRow(ctx, `SELECT `+channelSQL).Scan(&channel); err != nil {
		return fmt.Errorf("name the wake-up channel: %w", err)
	}
	return pg.Listen(ctx, pool, channel, func() { h.Wake(All) }, func(topic string) { h.Wake(Topic(topic)) })
}

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

// Close ends the waiter. It may be called again.
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
