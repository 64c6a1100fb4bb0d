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
	"github.com/signalbox-dev/signalbox/platform/wake"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/topic"
)

// SubjectConfig names the configuration in the event and audit tables.
const SubjectConfig = "hardware_config"

// SettleArgs asks for what follows a change: every instance has it, then the audit row.
type SettleArgs struct {
	Version int64 `json:"version"`
}

// Kind names the job in the queue.
func (SettleArgs) Kind() string { return "settle_hardware" }

const (
	// settleTries is how often it is tried: for days, since a change without its audit row is never done.
	settleTries = 20_000
	// lookEvery is how soon one who waits looks again without a wake-up.
	lookEvery = 250 * time.Millisecond
)

// Settler does what follows a change. It may be done by several at once and again after a crash: the
// configuration is marked in the transaction of its audit row.
type Settler struct {
	river.WorkerDefaults[SettleArgs]
	Pool   *pgxpool.Pool
	Store  Store
	Hub    *wake.Hub
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
	return wake.Notify(ctx, tx, topic.HardwareTaken)
}

// NextRetry spaces the tries: what an instance that cannot answer holds up is its lease at most.
func (s *Settler) NextRetry(*river.Job[SettleArgs]) time.Time { return s.Clock.Now().Add(time.Second) }

// await looks until ok says so or ctx ends, whenever an instance has moved and from time to time.
func await(ctx context.Context, hub *wake.Hub, clk clock.Clock, ok func(ctx context.Context) (bool, error)) error {
	moved := hub.Wait(topic.HardwareTaken)
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
