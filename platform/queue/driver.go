package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/run"
)

// driver is River's own driver with an end to its patience. What River tells the database when it
// stops (it leads no more, these jobs are done) it says under contexts that nobody can cancel, and
// where that fails it repeats it after pauses that nobody can cancel either: with a database that is
// away a stop took seven seconds and more. Here such a call ends with the client, and it is repeated
// where the pause can end.
type driver struct {
	riverdriver.Driver[pgx.Tx]
	stop *stop
}

// stop is what the calls of a client know of its end.
type stop struct {
	clock clock.Clock
	log   *slog.Logger
	asked context.Context // ends when the client is asked to stop
	over  context.Context // ends when nothing is waited for any more
}

// bound is ctx, ended at the latest when nothing is waited for any more.
func (s *stop) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return until(ctx, s.over)
}

// until is ctx, ended at the latest with end.
func until(ctx, end context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(end, cancel)
	return ctx, func() {
		release()
		cancel()
	}
}

// GetExecutor implements riverdriver.Driver.
func (d *driver) GetExecutor() riverdriver.Executor {
	return &executor{Executor: d.Driver.GetExecutor(), stop: d.stop}
}

// GetListener implements riverdriver.Driver.
func (d *driver) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return &listener{Listener: d.Driver.GetListener(params), stop: d.stop}
}

type executor struct {
	riverdriver.Executor
	stop *stop
}

// Begin implements riverdriver.Executor.
func (e *executor) Begin(ctx context.Context) (riverdriver.ExecutorTx, error) {
	tx, err := e.Executor.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &transaction{ExecutorTx: tx, stop: e.stop}, nil
}

// JobGetAvailable implements riverdriver.Executor.
func (e *executor) JobGetAvailable(ctx context.Context, params *riverdriver.JobGetAvailableParams) (*riverdriver.JobGetAvailableResult, error) {
	ctx, release := e.stop.bound(ctx)
	defer release()
	return e.Executor.JobGetAvailable(ctx, params)
}

// LeaderResign implements riverdriver.Executor. A leadership that cannot be given up runs out within
// seconds, so it is tried once and its failure is no error.
func (e *executor) LeaderResign(ctx context.Context, params *riverdriver.LeaderResignParams) (bool, error) {
	bound, release := e.stop.bound(ctx)
	defer release()
	resigned, err := e.Executor.LeaderResign(bound, params)
	if err != nil {
		e.stop.log.WarnContext(ctx, "the leadership of the queue was not given up: it runs out by itself", "error", err.Error())
		return false, nil
	}
	return resigned, nil
}

// storeTimeout bounds one try to store the ends of jobs.
const storeTimeout = 10 * time.Second

// JobSetStateIfRunningMany implements riverdriver.Executor: the ends of jobs. It tries until they are
// stored, or once more after the client was asked to stop: what is not stored by then is worked again.
func (e *executor) JobSetStateIfRunningMany(ctx context.Context, params *riverdriver.JobSetStateIfRunningManyParams) ([]*rivertype.JobRow, error) {
	pause := run.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.2}
	ctx = context.WithoutCancel(ctx)
	waiting, release := until(ctx, e.stop.asked)
	defer release()
	for attempt := 0; ; attempt++ {
		last := e.stop.asked.Err() != nil
		rows, err := e.store(ctx, params)
		if err == nil {
			return rows, nil
		}
		if last {
			// River takes the end of a context for final, any other error for one to repeat.
			return nil, fmt.Errorf("store the ends of %d jobs: %w: %w", len(params.ID), context.Canceled, err)
		}
		e.stop.log.WarnContext(ctx, "the ends of jobs were not stored yet", "jobs", len(params.ID), "attempt", attempt+1, "error", err.Error())
		_ = pause.Wait(waiting, e.stop.clock, attempt) // its error is the end that the next try looks at
	}
}

func (e *executor) store(ctx context.Context, params *riverdriver.JobSetStateIfRunningManyParams) ([]*rivertype.JobRow, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	ctx, release := e.stop.bound(ctx)
	defer release()
	return e.Executor.JobSetStateIfRunningMany(ctx, params)
}

type transaction struct {
	riverdriver.ExecutorTx
	stop *stop
}

// Rollback implements riverdriver.ExecutorTx.
func (t *transaction) Rollback(ctx context.Context) error {
	ctx, release := t.stop.bound(ctx)
	defer release()
	return t.ExecutorTx.Rollback(ctx)
}

type listener struct {
	riverdriver.Listener
	stop *stop
}

// Unlisten implements riverdriver.Listener.
func (l *listener) Unlisten(ctx context.Context, topic string) error {
	ctx, release := l.stop.bound(ctx)
	defer release()
	return l.Listener.Unlisten(ctx, topic)
}
