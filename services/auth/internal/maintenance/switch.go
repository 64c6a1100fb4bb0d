package maintenance

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Switch reads and changes the mode.
type Switch struct {
	Pool   *pgxpool.Pool
	Audit  *audit.Log
	Events *event.Log
	Clock  clock.Clock

	store Store
}

// Now returns the current state.
func (d *Switch) Now(ctx context.Context) (State, error) { return d.store.Load(ctx, d.Pool) }

// Serving returns the error with which requests are rejected during maintenance, or nil if they are served.
func (d *Switch) Serving(ctx context.Context) error {
	s, err := d.Now(ctx)
	if err != nil {
		return err
	}
	return s.Err(d.Clock.Now())
}

// Set changes the mode. It returns when no gateway serves requests in the previous mode any more. It stores the
// message and the announced end only if the new mode is On.
func (d *Switch) Set(ctx context.Context, mode Mode, message string, until *time.Time) (State, error) {
	now, caller := d.Clock.Now(), authn.CallerOf(ctx)
	next := State{Mode: mode, ChangedAt: &now, ChangedBy: caller.Subject, ChangedByName: caller.Username}
	if mode == On {
		if until != nil && !until.After(now) {
			return State{}, fault.InvalidFields(fault.At(fault.TypeValue, "Input should be in the future", "until"))
		}
		if next.Message, next.Until = message, until; message == "" {
			next.Message = plain
		}
	}
	err := pg.InTx(ctx, d.Pool, func(ctx context.Context, tx pgx.Tx) error {
		before, err := d.store.Lock(ctx, tx)
		if err != nil {
			return err
		}
		if err := d.store.Save(ctx, tx, next); err != nil {
			return err
		}
		_, err = d.Events.Append(ctx, tx, event.Event{
			SubjectKind: subject, SubjectID: subject, Type: "maintenance", From: string(before.Mode), To: string(mode), Message: next.Message,
		})
		if err != nil {
			return err
		}
		return d.Audit.Record(ctx, tx, audit.Entry{
			Action: "maintenance.set", TargetKind: subject, TargetID: subject, Before: before.shown(), After: next.shown(),
		})
	})
	if err != nil || mode == Off {
		return next, err // gateways cache no rejection, so the end of maintenance takes effect at once
	}
	return next, clock.Sleep(ctx, d.Clock, authn.AnonymousLife)
}
