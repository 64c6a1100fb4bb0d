package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Evictor ends the work on a node so that it continues elsewhere. It also pauses and resumes jobs. *lifecycle.Driver
// implements it.
type Evictor interface {
	Evict(ctx context.Context, nodeID string) error
	EvictIdle(ctx context.Context, nodeID string) error
	Pause(ctx context.Context, jobID string, extra func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
	Resume(ctx context.Context, jobID string, extra func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
}

// Orders stores the orders of admins and carries them out.
type Orders struct {
	Pool    *pgxpool.Pool
	Store   Store
	Events  *event.Log
	Trail   db.Recorder
	Evictor Evictor
}

// Give changes the order for a node and returns the node. If the order stays the same, Give writes no event and
// no audit row.
func (o *Orders) Give(
	ctx context.Context, nodeID, action string, change func(was Order, now time.Time) (Order, error),
) (*fleet.Node, error) {
	var n *fleet.Node
	err := pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		if n, err = o.Store.Lock(ctx, tx, nodeID); err != nil {
			return err
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		was := of(n)
		to, err := change(was, now)
		if err != nil || same(was, to) {
			return err
		}
		if err := o.move(ctx, tx, n, to); err != nil {
			return err
		}
		n, err = o.Store.Fleets.Node(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		return o.Trail.Record(ctx, tx, action, fleet.SubjectNode, nodeID,
			map[string]any{"hold": to.Hold, "reason": to.Reason, "mode": to.Mode, "deadline": to.Deadline})
	})
	return n, err
}

// Remove deletes a node. Its streams end, and the leader gives up its work.
func (o *Orders) Remove(ctx context.Context, nodeID string) error {
	return pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		n, err := o.Store.Lock(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		works, err := o.Store.Remove(ctx, tx, nodeID, now)
		if err != nil {
			return err
		}
		_, err = o.Events.Append(ctx, tx, event.Event{SubjectKind: fleet.SubjectNode, SubjectID: nodeID, Type: "node.deleted", From: n.State})
		if err != nil {
			return err
		}
		facts := map[string]any{"fleet_id": n.FleetID, "name": n.Name, "state": n.DisplayState(), "works": works}
		if err := o.Trail.Record(ctx, tx, "node.delete", fleet.SubjectNode, nodeID, facts); err != nil {
			return err
		}
		if err := pg.Notify(ctx, tx, db.NodeTopic(nodeID)); err != nil {
			return err
		}
		return pg.Notify(ctx, tx, db.QueueTopic)
	})
}

func same(a, b Order) bool {
	return a.Hold == b.Hold && a.Reason == b.Reason && a.Mode == b.Mode &&
		(a.Deadline == nil) == (b.Deadline == nil) && (a.Deadline == nil || a.Deadline.Equal(*b.Deadline))
}

// move stores an order, appends an event if the node's hold changes, and wakes the leader, which places work and
// drains nodes.
func (o *Orders) move(ctx context.Context, tx pgx.Tx, n *fleet.Node, to Order) error {
	if err := o.Store.Save(ctx, tx, n.ID, n.Hold, to); err != nil {
		return err
	}
	if n.Hold != to.Hold {
		word := to.Hold
		if word == fleet.HoldNone {
			word = "uncordoned"
		}
		_, err := o.Events.Append(ctx, tx, event.Event{
			SubjectKind: fleet.SubjectNode, SubjectID: n.ID, Type: "node." + word, From: n.Hold, To: to.Hold, Message: to.Reason,
		})
		if err != nil {
			return err
		}
	}
	return pg.Notify(ctx, tx, db.QueueTopic)
}

// RunOnce advances every drain: it ends the work that must end, and marks nodes without work as drained. A later
// call completes what a crash interrupted.
func (o *Orders) RunOnce(ctx context.Context) error {
	if err := o.resume(ctx); err != nil {
		return err
	}
	nodes, err := o.Store.Draining(ctx, o.Pool)
	if err != nil || len(nodes) == 0 {
		return err
	}
	now, err := pg.Now(ctx, o.Pool)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		if n.Works > 0 {
			if err := o.empty(ctx, n, now); err != nil {
				errs = append(errs, fmt.Errorf("drain node %s: %w", n.ID, err))
			}
		}
		errs = append(errs, o.settle(ctx, n.ID))
	}
	return errors.Join(errs...)
}

// empty ends that work of a node which must end now. In checkpoint mode it pauses each running job once, which makes
// the job save a checkpoint.
func (o *Orders) empty(ctx context.Context, n *fleet.Node, now time.Time) error {
	switch {
	case of(n).Evicts(now):
		return o.Evictor.Evict(ctx, n.ID)
	case n.DrainMode != ModeCheckpoint:
		return nil
	}
	errs := []error{o.Evictor.EvictIdle(ctx, n.ID)}
	running, err := o.Store.JobsToCheckpoint(ctx, o.Pool, n.ID)
	errs = append(errs, err)
	for _, id := range running {
		_, err := o.Evictor.Pause(ctx, id, func(ctx context.Context, tx pgx.Tx) error { return o.Store.RecordCheckpointRequest(ctx, tx, id) })
		if fault.Is(err, fault.Conflict) {
			err = o.Store.RecordCheckpointRequest(ctx, o.Pool, id) // the job cannot be paused; it runs until it ends or the deadline passes
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// resume puts the jobs that were paused by a drain back into the queue.
func (o *Orders) resume(ctx context.Context) error {
	saved, err := o.Store.PausedByDrain(ctx, o.Pool)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range saved {
		_, err := o.Evictor.Resume(ctx, id, func(ctx context.Context, tx pgx.Tx) error { return o.Store.DeleteCheckpointRequests(ctx, tx, id) })
		if !fault.Is(err, fault.Conflict) { // a conflict means that the owner resumed the job first
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, o.Store.DeleteCheckpointRequests(ctx, o.Pool, ""))...)
}

// settle marks a draining node without work as drained. It locks the node, so nothing can be placed there meanwhile.
func (o *Orders) settle(ctx context.Context, nodeID string) error {
	return pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		n, err := o.Store.Lock(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		if n.Hold != fleet.HoldDraining || n.Works > 0 {
			return nil
		}
		to := of(n)
		to.Hold = fleet.HoldDrained
		return o.move(ctx, tx, n, to)
	})
}
