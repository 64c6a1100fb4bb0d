package deployment

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
)

// Orders tells jobs, after the commit, what a revision wants of its engine.
type Orders interface {
	Order(ctx context.Context, tx pgx.Tx, revisionID string) error
}

// Book changes deployments: each change with its event, and with its order to jobs where it has one.
type Book struct {
	Pool   *pgxpool.Pool
	Store  *Store
	Orders Orders
	Events *event.Log
	Audit  *audit.Log
	Clock  clock.Clock
}

// Observe applies what jobs knows of an engine. wanted is false for a work that nobody wants.
func (b *Book) Observe(ctx context.Context, o Observation) (wanted bool, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		r, err := b.Store.LockWork(ctx, tx, o.WorkID)
		if fault.Is(err, fault.Absent) {
			wanted = false
			return nil
		}
		if err != nil {
			return err
		}
		wanted = r.Wanted
		if r.over() || o.Generation != r.Generation || o.Fence < r.Engine.Fence {
			return nil
		}
		return b.apply(ctx, tx, r, o)
	})
	return wanted, err
}

func (b *Book) apply(ctx context.Context, tx pgx.Tx, r *Revision, o Observation) error {
	before := *r
	verdict := Judge(r, o)
	r.State, r.Reason = verdict.State, verdict.Reason
	r.note(o)
	if r.State == Ready && before.State != Ready {
		now := b.Clock.Now()
		r.ReadyAt = &now
	}
	switch {
	case verdict.Again:
		r.Generation++
	case r.State == Failed:
		// Its place is for others; what it said is kept.
		r.Wanted, r.Engine = false, Engine{Fence: o.Fence}
	}
	if same(&before, r) {
		return nil
	}
	if err := b.Store.Save(ctx, tx, r, before.State); err != nil {
		return err
	}
	if verdict.Again || !r.Wanted {
		if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
			return err
		}
	}
	if err := b.moved(ctx, tx, &before, r); err != nil {
		return err
	}
	d, err := b.Store.Get(ctx, tx, own.Everything(), r.DeploymentID)
	if err != nil {
		return err
	}
	if !d.promoted(r.ID) {
		return nil
	}
	_, err = epoch.Bump(ctx, tx)
	return err
}

// note takes over what was reported of the execution.
func (r *Revision) note(o Observation) {
	r.Engine.Fence, r.Engine.NodeID, r.Engine.StartedAt = o.Fence, o.NodeID, o.RunningAt
	if o.Report == nil || o.NodeID == "" {
		r.Engine = Engine{Fence: o.Fence, NodeID: o.NodeID}
		return
	}
	r.Engine.PID, r.Engine.ReadyAt = o.Report.Engine.PID, o.Report.ReadyAt
	r.Engine.Address, r.Engine.Key = o.Report.Engine.Address, o.Report.Engine.Key
	// What the probes saw at the first readiness is a fact of the revision and stays.
	if !r.served() && len(o.Report.Probes) > 0 {
		r.Probes = o.Report.Probes
	}
}

// same says whether nothing is to be written.
func same(a, b *Revision) bool {
	return a.State == b.State && a.Generation == b.Generation && sameReason(a.Reason, b.Reason) &&
		a.Engine.Fence == b.Engine.Fence && a.Engine.NodeID == b.Engine.NodeID && a.Engine.PID == b.Engine.PID &&
		a.Engine.Address == b.Engine.Address && a.Engine.Key.Equal(b.Engine.Key) &&
		sameTime(a.Engine.StartedAt, b.Engine.StartedAt) && sameTime(a.Engine.ReadyAt, b.Engine.ReadyAt) &&
		bytes.Equal(a.Probes, b.Probes)
}

func sameReason(a, b *Reason) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func sameTime(a, b *time.Time) bool { return (a == nil) == (b == nil) && (a == nil || a.Equal(*b)) }

// moved writes the event of a change of state.
func (b *Book) moved(ctx context.Context, tx pgx.Tx, before, r *Revision) error {
	if before.State == r.State {
		return nil
	}
	e := event.Event{Type: "revision_state", From: string(before.State), To: string(r.State), Message: fmt.Sprintf("revision %d", r.Number)}
	if r.Reason != nil {
		e.Reason = r.Reason.Short()
		e.Message += ": " + r.Reason.Text()
	}
	return b.event(ctx, tx, r.DeploymentID, e)
}

func (b *Book) event(ctx context.Context, tx pgx.Tx, deploymentID string, e event.Event) error {
	e.SubjectKind, e.SubjectID = SubjectKind, deploymentID
	_, err := b.Events.Append(ctx, tx, e)
	return err
}

// record writes the event and the audit row of what a person did.
func (b *Book) record(ctx context.Context, tx pgx.Tx, action, deploymentID string, e event.Event, after any) error {
	if err := b.event(ctx, tx, deploymentID, e); err != nil {
		return err
	}
	return b.Audit.Record(ctx, tx, audit.Entry{Action: action, TargetKind: SubjectKind, TargetID: deploymentID, After: after})
}
