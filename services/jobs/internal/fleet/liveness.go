package fleet

import (
	"cmp"
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
	works  int // of a Slurm fleet

	mu    sync.Mutex
	beats map[string]int64 // by node id: the session that sent a heartbeat since the last Flush
}

// NewLiveness returns a Liveness without heartbeats. Each node gets the given number of slots; 0 derives the number
// from the node's CPUs. The agent of a Slurm fleet gets one slot for each work that its fleet may have.
func NewLiveness(pool *pgxpool.Pool, events *event.Log, slots, slurmWorks int) *Liveness {
	return &Liveness{pool: pool, events: events, slots: slots, works: slurmWorks, beats: map[string]int64{}}
}

// Open begins a new session of a node and ends its older ones. It refuses an agent that does not fit its fleet.
func (l *Liveness) Open(ctx context.Context, h Hello) (session int64, err error) {
	h, slots := l.size(h)
	err = pg.InTx(ctx, l.pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := l.store.Admit(ctx, tx, h.NodeID, h.RunsOn); err != nil {
			return err
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		var before string
		session, before, err = l.store.Open(ctx, tx, h, slots, now)
		if err != nil || (before != NodeJoining && before != NodeLost) {
			return err
		}
		return l.moved(ctx, tx, h.NodeID, before, NodeReady)
	})
	return session, err
}

// size returns the hello with what the node can run, and its slots. The agent of a Slurm fleet runs no work on its own host,
// so its GPUs do not count.
func (l *Liveness) size(h Hello) (Hello, int) {
	if h.RunsOn = cmp.Or(h.RunsOn, KindAgent); h.RunsOn == KindSlurm {
		h.Inventory.GPUs = 0
		return h, l.works
	}
	h.Slurm = nil
	return h, h.Inventory.Slots(l.slots)
}

// ReportSlurm stores what the agent of a Slurm fleet reports about its cluster.
func (l *Liveness) ReportSlurm(ctx context.Context, b Beat, r *SlurmReport) error {
	return pg.InTx(ctx, l.pool, func(ctx context.Context, tx pgx.Tx) error { return l.store.SaveSlurm(ctx, tx, b, r) })
}

// Session returns the newest session of a node.
func (l *Liveness) Session(ctx context.Context, nodeID string) (int64, error) {
	return l.store.Session(ctx, l.pool, nodeID)
}

// Beat records a heartbeat of a session in memory, until the next Flush.
func (l *Liveness) Beat(b Beat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beats[b.NodeID] = max(l.beats[b.NodeID], b.Session)
}

// Flush stores the heartbeats that arrived since the last Flush.
func (l *Liveness) Flush(ctx context.Context) error {
	l.mu.Lock()
	noted := l.beats
	l.beats = map[string]int64{}
	l.mu.Unlock()
	if len(noted) == 0 {
		return nil
	}
	beats := make([]Beat, 0, len(noted))
	for node, session := range noted {
		beats = append(beats, Beat{NodeID: node, Session: session})
	}
	return pg.InTx(ctx, l.pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		back, err := l.store.Beats(ctx, tx, beats, now)
		if err != nil {
			return err
		}
		for _, id := range back {
			if err := l.moved(ctx, tx, id, NodeLost, NodeReady); err != nil {
				return err
			}
		}
		return nil
	})
}

// Expire marks the nodes that sent nothing for longer than the lease as lost.
func (l *Liveness) Expire(ctx context.Context, lease time.Duration) error {
	return pg.InTx(ctx, l.pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		lost, err := l.store.MarkLost(ctx, tx, now.Add(-lease), now)
		if err != nil {
			return err
		}
		for _, id := range lost {
			if err := l.moved(ctx, tx, id, NodeReady, NodeLost); err != nil {
				return err
			}
		}
		return nil
	})
}

// expireBatch is the maximum number of nodes that one call removes.
const expireBatch = 500

// ExpireJoining removes the nodes that have not connected within the given time after they joined.
func (l *Liveness) ExpireJoining(ctx context.Context, patience time.Duration) error {
	return pg.InTx(ctx, l.pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		expired, err := l.store.ExpireJoining(ctx, tx, now.Add(-patience), expireBatch)
		if err != nil {
			return err
		}
		for _, id := range expired {
			_, err := l.events.Append(ctx, tx, event.Event{
				SubjectKind: SubjectNode, SubjectID: id, Type: "node.expired", From: NodeJoining, Message: "the node did not connect after it had joined",
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// RemovedNodes returns the nodes that were removed while they had work. Their work must be given up.
func (l *Liveness) RemovedNodes(ctx context.Context) ([]string, error) {
	return l.store.Removed(ctx, l.pool)
}

// NodesToFence returns the nodes that were lost by the time lostBefore and have work whose lease was last renewed
// before the time renewedBefore, or never. That work must be given up.
func (l *Liveness) NodesToFence(ctx context.Context, lostBefore, renewedBefore time.Time) ([]string, error) {
	return l.store.LostSince(ctx, l.pool, lostBefore, renewedBefore)
}

func (l *Liveness) moved(ctx context.Context, tx pgx.Tx, nodeID, from, to string) error {
	_, err := l.events.Append(ctx, tx, event.Event{
		SubjectKind: SubjectNode, SubjectID: nodeID, Type: "node." + to, From: from, To: to,
	})
	if err != nil {
		return err
	}
	return pg.Notify(ctx, tx, db.QueueTopic)
}
