package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// The kinds of the subjects fleet and node in the event and audit tables.
const (
	SubjectFleet = "fleet"
	SubjectNode  = "node"
)

// Liveness tracks the sessions and the liveness of nodes. Heartbeats are collected and stored in batches.
type Liveness struct {
	pool   *pgxpool.Pool
	store  Store
	events *event.Log
	slots  int

	mu    sync.Mutex
	beats map[string]int64 // node → session heard from since the last Flush
}

// NewKeeper returns a Liveness. slots is the number of slots per node; 0 derives it from the node's CPUs.
func NewKeeper(pool *pgxpool.Pool, events *event.Log, slots int) *Liveness {
	return &Liveness{pool: pool, events: events, slots: slots, beats: map[string]int64{}}
}

// Open begins a new session of a node and ends its older ones.
func (k *Liveness) Open(ctx context.Context, h Hello) (session int64, err error) {
	err = pg.InTx(ctx, k.pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		var before string
		session, before, err = k.store.Open(ctx, tx, h, h.Inventory.Slots(k.slots), now)
		if err != nil || (before != NodeJoining && before != NodeLost) {
			return err
		}
		return k.moved(ctx, tx, h.NodeID, before, NodeReady)
	})
	return session, err
}

// Session returns the newest session of a node.
func (k *Liveness) Session(ctx context.Context, nodeID string) (int64, error) {
	return k.store.Session(ctx, k.pool, nodeID)
}

// Beat records a heartbeat of a session in memory, until the next Flush.
func (k *Liveness) Beat(b Beat) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.beats[b.NodeID] = max(k.beats[b.NodeID], b.Session)
}

// Flush stores the heartbeats that arrived since the last Flush.
func (k *Liveness) Flush(ctx context.Context) error {
	k.mu.Lock()
	noted := k.beats
	k.beats = map[string]int64{}
	k.mu.Unlock()
	if len(noted) == 0 {
		return nil
	}
	beats := make([]Beat, 0, len(noted))
	for node, session := range noted {
		beats = append(beats, Beat{NodeID: node, Session: session})
	}
	return pg.InTx(ctx, k.pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		back, err := k.store.Beats(ctx, tx, beats, now)
		if err != nil {
			return err
		}
		for _, id := range back {
			if err := k.moved(ctx, tx, id, NodeLost, NodeReady); err != nil {
				return err
			}
		}
		return nil
	})
}

// Expire marks nodes as lost that were silent for longer than the lease.
func (k *Liveness) Expire(ctx context.Context, lease time.Duration) error {
	return pg.InTx(ctx, k.pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		lost, err := k.store.MarkLost(ctx, tx, now.Add(-lease), now)
		if err != nil {
			return err
		}
		for _, id := range lost {
			if err := k.moved(ctx, tx, id, NodeReady, NodeLost); err != nil {
				return err
			}
		}
		return nil
	})
}

// NodesToFence returns the nodes that have work and have been lost for at least after. Their work must be given up.
func (k *Liveness) NodesToFence(ctx context.Context, after time.Duration) ([]string, error) {
	now, err := pg.Now(ctx, k.pool)
	if err != nil {
		return nil, err
	}
	return k.store.LostSince(ctx, k.pool, now.Add(-after))
}

func (k *Liveness) moved(ctx context.Context, tx pgx.Tx, nodeID, from, to string) error {
	_, err := k.events.Append(ctx, tx, event.Event{
		SubjectKind: SubjectNode, SubjectID: nodeID, Type: "node." + to, From: from, To: to,
	})
	if err != nil {
		return err
	}
	return pg.Notify(ctx, tx, db.QueueTopic)
}
