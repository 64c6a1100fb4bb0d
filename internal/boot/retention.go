package boot

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/retention"
)

// Aging is a service with rows of its own that are deleted when they reach an age.
type Aging interface{ Retention() []retention.Rule }

// keptAfterJournal is how much longer a revocation is kept in the database than in the journal. Otherwise the journal
// could contain revocations that the database has deleted, and it would look as if a restore had lost them.
const keptAfterJournal = 7 * 24 * time.Hour

// Ages are the retention ages of the rows that every service has. An age of zero keeps the rows forever.
type Ages struct{ Event, Task time.Duration }

// retention returns the worker that deletes the old rows of a service: the rows that every service has, and those for
// which the service itself has rules.
func (e *Env) retention(svc Service) (process.Worker, error) {
	rules := []retention.Rule{
		{Name: "event", Age: e.Ages.Event, Step: func(ctx context.Context, before time.Time, limit int) (int64, error) {
			return event.DeleteBefore(ctx, e.Pool, before, limit)
		}},
		{Name: "background task", Age: e.Ages.Task, Step: func(ctx context.Context, before time.Time, limit int) (int64, error) {
			return bgjob.DeleteBefore(ctx, e.Pool, before, limit)
		}},
		{Name: "stored response", Age: idempotency.Lifetime, Step: func(ctx context.Context, before time.Time, limit int) (int64, error) {
			return idempotency.DeleteBefore(ctx, e.Pool, before, limit)
		}},
	}
	if e.Sealing.RevocationAge > 0 {
		rules = append(rules, retention.Rule{
			Name: "revocation", Age: e.Sealing.RevocationAge + keptAfterJournal,
			Step: func(ctx context.Context, before time.Time, limit int) (int64, error) {
				return audit.DeleteRevocationsBefore(ctx, e.Pool, before, limit)
			},
		})
	}
	if own, ok := svc.(Aging); ok {
		rules = append(rules, own.Retention()...)
	}
	w, err := retention.New(e.Clock, e.Log, e.Obs.Meter, rules...)
	if err != nil {
		return process.Worker{}, err
	}
	return process.Worker{Name: e.Name + ".retention", Run: w.Run}, nil
}

// SecretKeeper is a service with columns that are encrypted with the keyring of the installation.
type SecretKeeper interface{ Sealed() []pg.SealedColumn }

// How often a process looks for values that are encrypted with a former key. Such values occur only after the keyring
// was changed, or while another process still writes with the former keyring.
const (
	resealEvery  = time.Hour
	resealJitter = 10 * time.Minute
)

// resealer returns the worker that re-encrypts values with the first key of the keyring.
func (e *Env) resealer(keeper SecretKeeper) process.Worker {
	name := e.Name + ".reseal"
	round := func(ctx context.Context) error {
		moved, err := pg.Reseal(ctx, e.Pool, e.Keyring, keeper.Sealed()...)
		if moved > 0 {
			e.Log.InfoContext(ctx, "re-encrypted values with the first key of the keyring", "moved", moved)
		}
		return err
	}
	return process.Worker{Name: name, Run: func(ctx context.Context) error {
		return process.Loop(ctx, e.Clock, resealEvery, resealJitter, process.Logged(e.Log, name, round))
	}}
}
