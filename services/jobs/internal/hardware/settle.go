package hardware

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// SubjectConfig is the kind of the configuration as a subject in the event and audit tables.
const SubjectConfig = "hardware_config"

// SettleArgs are the arguments of the River job that settles a change. The job waits until every instance has the
// version, and then writes the audit row.
type SettleArgs struct {
	Version int64 `json:"version"`
}

// Kind implements river.JobArgs.
func (SettleArgs) Kind() string { return "settle_hardware" }

const (
	// settleTries is the maximum number of tries. It is high, because a change is never settled if its job gives up.
	settleTries = 20_000
	// lookEvery is the interval at which await polls, in case a wake-up was lost.
	lookEvery = 250 * time.Millisecond
)

// Settler settles changes. Several settlers may work on the same change: the transaction that writes the audit row also
// marks the configuration as settled, so only one of them succeeds.
type Settler struct {
	river.WorkerDefaults[SettleArgs]
	Pool   *pgxpool.Pool
	Store  Store
	Hub    *pg.NotifyHub
	Clock  clock.Clock
	Audit  *audit.Log
	Events *event.Log
}

// Work settles one change.
func (s *Settler) Work(ctx context.Context, j *river.Job[SettleArgs]) error {
	err := await(ctx, s.Hub, s.Clock, func(ctx context.Context) (bool, error) {
		behind, err := s.Store.Behind(ctx, s.Pool, j.Args.Version)
		return behind == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the instances: %w", err)
	}
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		return s.settle(ctx, tx, j.Args.Version)
	})
}

func (s *Settler) settle(ctx context.Context, tx pgx.Tx, number int64) error {
	by, after, before, first, err := s.Store.Settle(ctx, tx, number)
	if err != nil || !first {
		return err
	}
	name := strconv.FormatInt(number, 10)
	if err := s.Audit.Record(ctx, tx, audit.Entry{
		Action: "hardware.replace", TargetKind: SubjectConfig, TargetID: name, Before: before, After: after, Actor: &by,
	}); err != nil {
		return err
	}
	_, err = s.Events.Append(ctx, tx, event.Event{
		SubjectKind: SubjectConfig, SubjectID: name, Type: "hardware.replaced", ActorKind: by.Kind, ActorID: by.ID,
	})
	if err != nil {
		return err
	}
	return pg.Notify(ctx, tx, db.HardwareTakenTopic)
}

// NextRetry retries after one second: an unreachable instance delays a change by at most its lease.
func (s *Settler) NextRetry(*river.Job[SettleArgs]) time.Time { return s.Clock.Now().Add(time.Second) }

// await calls the function ok on every notification, and at least once per lookEvery. It returns when ok returns true
// or an error, or when ctx ends.
func await(ctx context.Context, hub *pg.NotifyHub, clk clock.Clock, ok func(ctx context.Context) (bool, error)) error {
	moved := hub.Wait(db.HardwareTakenTopic)
	defer moved.Close()
	tick := clk.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		done, err := ok(ctx)
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved.C:
		case <-tick.C():
		}
	}
}
