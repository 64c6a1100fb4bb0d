package bgjob

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// driver wraps River's own driver and limits how long its calls may take during a stop. When River stops, it resigns
// its leadership and stores the results of jobs. It does both with contexts that cannot be cancelled, and retries after
// pauses that cannot be cancelled either: without a database, a stop took seven seconds or more. The driver cancels
// such calls when the client's grace period is over, and its own pauses end when the client begins to stop.
type driver struct {
	riverdriver.Driver[pgx.Tx]
	stop *stop
}

// stop holds the contexts from which the database calls of a client learn that the client is stopping.
type stop struct {
	clock    clock.Clock
	log      *slog.Logger
	stopping context.Context // ends when the client begins to stop
	expired  context.Context // ends when the grace period for pending calls is over
}

// bound returns a copy of ctx that is also cancelled when the grace period is over.
func (s *stop) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return until(ctx, s.expired)
}

// until returns a copy of ctx that is also cancelled when the second context is done.
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

// LeaderResign implements riverdriver.Executor. A leadership that is not resigned expires within seconds, so
// LeaderResign tries once and reports no error if that fails.
func (e *executor) LeaderResign(ctx context.Context, params *riverdriver.LeaderResignParams) (bool, error) {
	bound, release := e.stop.bound(ctx)
	defer release()
	resigned, err := e.Executor.LeaderResign(bound, params)
	if err != nil {
		e.stop.log.WarnContext(ctx, "could not resign the leadership of the queue; it expires by itself", "error", err.Error())
		return false, nil
	}
	return resigned, nil
}

// storeTimeout limits one attempt to store the results of jobs.
const storeTimeout = 10 * time.Second

// JobSetStateIfRunningMany implements riverdriver.Executor. It stores the results of jobs and retries until that
// succeeds. Once the client is stopping, it makes one last attempt. Jobs whose results are not stored run again.
func (e *executor) JobSetStateIfRunningMany(ctx context.Context, params *riverdriver.JobSetStateIfRunningManyParams) ([]*rivertype.JobRow, error) {
	pause := process.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.2}
	ctx = context.WithoutCancel(ctx)
	waiting, release := until(ctx, e.stop.stopping)
	defer release()
	for attempt := 0; ; attempt++ {
		last := e.stop.stopping.Err() != nil
		rows, err := e.store(ctx, params)
		if err == nil {
			return rows, nil
		}
		if last {
			// River retries after every error except the error of a cancelled context.
			return nil, fmt.Errorf("store the results of %d jobs: %w: %w", len(params.ID), context.Canceled, err)
		}
		e.stop.log.WarnContext(ctx, "could not store the results of jobs; retrying", "jobs", len(params.ID), "attempt", attempt+1, "error", err.Error())
		_ = pause.Wait(waiting, e.stop.clock, attempt) // fails only if the client is stopping, which the next iteration checks
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
