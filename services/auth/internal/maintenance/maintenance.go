// Package maintenance owns the mode of the installation: whether its API serves or refuses everybody. It
// promises that once a change is answered no replica judges a request by the former mode (whoever asks is
// answered from the row), that the mode outlives every process, and that an admin can always end it.
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

// Mode is whether the installation serves.
type Mode string

// The modes.
const (
	Off Mode = "off"
	On  Mode = "maintenance"
)

// plain is what refusals say where nobody gave words.
const plain = "The installation is in maintenance"

// How long a refused client is told to wait: until the announced end, within these bounds; retry where no end
// is announced or it has passed.
const (
	retry    = time.Minute
	minRetry = time.Second
	maxRetry = time.Hour
)

// subject is what the audit and the events are about.
const subject = "installation"

// State is the mode and what is told of it.
type State struct {
	Mode Mode
	// Message and Until are empty while the mode is Off.
	Message string
	Until   *time.Time
	// ChangedAt is nil where the mode was never changed.
	ChangedAt     *time.Time
	ChangedBy     string
	ChangedByName string
}

// Refusal is what a request is told, nil where it is served.
func (s State) Refusal(now time.Time) error {
	if s.Mode == Off {
		return nil
	}
	wait := retry
	if s.Until != nil && s.Until.After(now) {
		wait = min(max(s.Until.Sub(now), minRetry), maxRetry)
	}
	return fault.New(fault.Unavailable, fault.CodeMaintenance, "%s", s.Message).WithRetryAfter(wait)
}

// shown is what the audit tells of a state.
func (s State) shown() map[string]any {
	return map[string]any{"mode": s.Mode, "message": s.Message, "until": s.Until}
}

// Desk reads and changes the mode.
type Desk struct {
	Pool   *pgxpool.Pool
	Audit  *audit.Log
	Events *event.Log
	Clock  clock.Clock

	store Store
}

// Now answers the mode in force.
func (d *Desk) Now(ctx context.Context) (State, error) { return d.store.Load(ctx, d.Pool) }

// Serving is why nobody is served now, or nil.
func (d *Desk) Serving(ctx context.Context) error {
	s, err := d.Now(ctx)
	if err != nil {
		return err
	}
	return s.Refusal(d.Clock.Now())
}

// Set changes the mode. Words and end are kept only with the mode that they are about.
func (d *Desk) Set(ctx context.Context, mode Mode, message string, until *time.Time) (State, error) {
	now, who := d.Clock.Now(), authn.Of(ctx)
	next := State{Mode: mode, ChangedAt: &now, ChangedBy: who.Subject, ChangedByName: who.Username}
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
	return next, err
}
