package playground

import (
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
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// Changer changes sessions. It writes each change in one transaction with its event. If the change affects engines, the
// transaction also contains the orders to the jobs service.
type Changer struct {
	Pool      *pgxpool.Pool
	Store     Store
	Revisions *revision.Store
	Models    model.Store
	Orders    deployment.Orders
	Events    *event.Log
	Audit     *audit.Log
	Clock     clock.Clock
}

// Create inserts a new session in the transaction tx and orders its engines.
func (b *Changer) Create(ctx context.Context, tx pgx.Tx, s *Session, targets []*revision.Revision) error {
	if err := b.Store.Insert(ctx, tx, s); err != nil {
		return err
	}
	for _, r := range targets {
		if err := b.Models.Hold(ctx, tx, r.Source.ModelID, r.Source.Version); err != nil {
			return err
		}
		if err := b.Revisions.InsertNumbered(ctx, tx, r); err != nil {
			return err
		}
		if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
			return err
		}
	}
	return b.record(ctx, tx, "playground.create", s.ID, event.Event{Type: "created"}, map[string]any{
		"project": s.Project, "targets": len(targets), "expires_at": s.ExpiresAt,
	})
}

// Extend moves the expiry of a live session by the given duration, but never beyond maxTTL after its creation.
func (b *Changer) Extend(ctx context.Context, sessionID string, by time.Duration) (s *Session, err error) {
	err = pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if s, err = b.Store.Lock(ctx, tx, sessionID); err != nil {
			return err
		}
		if err := s.ended(b.Clock.Now()); err != nil {
			return err
		}
		last := s.CreatedAt.Add(maxTTL)
		if !s.ExpiresAt.Before(last) {
			return fault.New(fault.Conflict, "session_longest", "%s %s already expires four hours after its creation, which is the limit", SubjectKind, s.ID)
		}
		if s.ExpiresAt = s.ExpiresAt.Add(by); s.ExpiresAt.After(last) {
			s.ExpiresAt = last
		}
		if err := b.Store.Extend(ctx, tx, s); err != nil {
			return err
		}
		running, err := b.Revisions.LockWanted(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		for _, r := range running {
			if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
				return err
			}
		}
		return b.record(ctx, tx, "playground.extend", s.ID, event.Event{Type: "extended"}, map[string]any{"expires_at": s.ExpiresAt})
	})
	return s, err
}

// Stop ends a live session. It does nothing if the session has ended.
func (b *Changer) Stop(ctx context.Context, sessionID string) error {
	return pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
		s, err := b.Store.Lock(ctx, tx, sessionID)
		if err != nil || s.State != stateLive {
			return err
		}
		now := b.Clock.Now()
		s.State, s.EndedAt = stateStopped, &now
		if err := b.end(ctx, tx, s); err != nil {
			return err
		}
		return b.Audit.Record(ctx, tx, audit.Entry{Action: "playground.stop", TargetKind: SubjectKind, TargetID: s.ID})
	})
}

// Expire ends the sessions that have reached their expiry or their idle timeout.
func (b *Changer) Expire(ctx context.Context) error {
	due, err := b.Store.Due(ctx, b.Pool, b.Clock.Now())
	if err != nil {
		return err
	}
	for _, id := range due {
		err := pg.InTx(ctx, b.Pool, func(ctx context.Context, tx pgx.Tx) error {
			s, err := b.Store.Lock(ctx, tx, id)
			if fault.Is(err, fault.Absent) || err == nil && s.State != stateLive {
				return nil // another replica has ended the session
			}
			if err != nil {
				return err
			}
			at, why := s.overAt()
			if b.Clock.Now().Before(at) {
				return nil // the session has been extended or called since
			}
			s.State, s.Reason, s.EndedAt = stateExpired, why, &at
			return b.end(ctx, tx, s)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Moved implements deployment.RevisionObserver. If a target fails, its session fails too. The caller has locked only
// the revision, so Moved locks the session. It changes the session only if another target has not already ended it.
func (b *Changer) Moved(ctx context.Context, tx pgx.Tx, before, after *revision.Revision) error {
	if before.State == after.State {
		return nil
	}
	e := event.Event{
		SubjectKind: SubjectKind, SubjectID: after.DeploymentID, Type: "target_state", From: string(before.State), To: string(after.State),
		Message: fmt.Sprintf("target %d", after.Number),
	}
	if after.Reason != nil {
		e.Reason = after.Reason.Short()
		e.Message += ": " + after.Reason.Text()
	}
	if _, err := b.Events.Append(ctx, tx, e); err != nil || after.State != revision.Failed {
		return err
	}
	s, err := b.Store.Lock(ctx, tx, after.DeploymentID)
	if err != nil || s.State != stateLive {
		return err
	}
	now := b.Clock.Now()
	s.State, s.EndedAt, s.Reason = stateFailed, &now, e.Message
	return b.end(ctx, tx, s)
}

// end ends a locked session and its engines.
func (b *Changer) end(ctx context.Context, tx pgx.Tx, s *Session) error {
	if err := b.Store.End(ctx, tx, s); err != nil {
		return err
	}
	running, err := b.Revisions.LockWanted(ctx, tx, s.ID)
	if err != nil {
		return err
	}
	for _, r := range running {
		from := r.State
		r.State, r.Wanted, r.Engine = revision.Stopped, false, revision.Engine{Fence: r.Engine.Fence}
		r.Reason = &revision.Reason{Phase: string(revision.Stopped), Code: s.State, Message: "the playground session has ended"}
		if err := b.Revisions.Save(ctx, tx, r, from); err != nil {
			return err
		}
		if err := b.Orders.Order(ctx, tx, r.ID); err != nil {
			return err
		}
	}
	_, err = b.Events.Append(ctx, tx, event.Event{
		SubjectKind: SubjectKind, SubjectID: s.ID, Type: "ended", From: stateLive, To: s.State, Reason: s.Reason,
	})
	return err
}

func (b *Changer) record(ctx context.Context, tx pgx.Tx, action, sessionID string, e event.Event, after any) error {
	e.SubjectKind, e.SubjectID = SubjectKind, sessionID
	return db.RecordChange(ctx, tx, b.Events, b.Audit, action, e, after)
}
