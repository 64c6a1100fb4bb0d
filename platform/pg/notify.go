package pg

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Topic identifies what a wake-up is about. Each service defines its own topics.
type Topic string

// AllTopics wakes all waiters. NotifyHub uses it each time it has connected, because earlier wake-ups may have been
// missed.
const AllTopics Topic = "*"

// channelSQL is the SQL expression for the channel name of this schema.
const channelSQL = `current_schema() || '_wake'`

// Notify wakes the waiters of the topic on every replica when the transaction commits.
func Notify(ctx context.Context, q Querier, topic Topic) error {
	if _, err := q.Exec(ctx, `SELECT pg_notify(`+channelSQL+`, $1)`, string(topic)); err != nil {
		return fmt.Errorf("notify the waiters of %s: %w", topic, err)
	}
	return nil
}

// NotifyHub delivers wake-ups to the waiters of this replica.
//
// Wake-ups only reduce latency: they may be lost or duplicated, so waiters must read the rows, and also poll them
// from time to time. A wake-up sent in a transaction is delivered when the transaction commits. Wake-ups do not reach
// other services or installations in the same database.
type NotifyHub struct {
	mu      sync.Mutex
	waiters map[Topic]map[*Waiter]struct{}
}

// NewNotifyHub returns a NotifyHub without waiters.
func NewNotifyHub() *NotifyHub { return &NotifyHub{waiters: map[Topic]map[*Waiter]struct{}{}} }

// Listen delivers the wake-ups of all replicas until ctx is done or the connection is lost. It uses its own
// connection. It first wakes all waiters, because earlier wake-ups may have been missed.
func (h *NotifyHub) Listen(ctx context.Context, pool *pgxpool.Pool) error {
	var channel string
	if err := pool.QueryRow(ctx, `SELECT `+channelSQL).Scan(&channel); err != nil {
		return fmt.Errorf("get the name of the wake-up channel: %w", err)
	}
	return Listen(ctx, pool, channel, func() { h.Wake(AllTopics) }, func(topic string) { h.Wake(Topic(topic)) })
}

// Waiter receives the wake-ups of some topics on C. Wake-ups that arrive before C is read are merged.
type Waiter struct {
	C      <-chan struct{}
	c      chan struct{}
	hub    *NotifyHub
	topics []Topic
}

// Wait returns a Waiter for these topics. The caller must close it.
func (h *NotifyHub) Wait(topics ...Topic) *Waiter {
	c := make(chan struct{}, 1)
	w := &Waiter{C: c, c: c, hub: h, topics: append([]Topic{AllTopics}, topics...)}
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

// Close removes the waiter. It may be called more than once.
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
func (h *NotifyHub) Wake(topic Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiters[topic] {
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}
