package bgjob

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// silent is a database that receives calls and never responds.
type silent struct {
	riverdriver.Executor
	called chan struct{}
}

func (s *silent) hang(ctx context.Context) error {
	s.called <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *silent) Begin(context.Context) (riverdriver.ExecutorTx, error) {
	return &silentTx{silent: s}, nil
}

func (s *silent) JobGetAvailable(ctx context.Context, _ *riverdriver.JobGetAvailableParams) (*riverdriver.JobGetAvailableResult, error) {
	return nil, s.hang(ctx)
}

func (s *silent) LeaderResign(ctx context.Context, _ *riverdriver.LeaderResignParams) (bool, error) {
	return false, s.hang(ctx)
}

func (s *silent) JobSetStateIfRunningMany(ctx context.Context, _ *riverdriver.JobSetStateIfRunningManyParams) ([]*rivertype.JobRow, error) {
	return nil, s.hang(ctx)
}

type silentTx struct {
	riverdriver.ExecutorTx
	silent *silent
}

func (t *silentTx) Rollback(ctx context.Context) error { return t.silent.hang(ctx) }

type silentListener struct {
	riverdriver.Listener
	silent *silent
}

func (l *silentListener) Unlisten(ctx context.Context, _ string) error { return l.silent.hang(ctx) }

func newStop() (s *stop, requestStop, end context.CancelFunc) {
	s = &stop{clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)), log: slog.New(slog.DiscardHandler)}
	s.stopping, requestStop = context.WithCancel(context.Background())
	s.expired, end = context.WithCancel(context.Background())
	return s, requestStop, end
}

// River does not cancel the context of these calls when the client stops, so the driver must end them.
func TestExecutor_callsEndWithClient(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, c := range map[string]struct {
		call func(e *executor, l *listener) error
		ok   bool // the call returns no error although it fails
	}{
		"fetch jobs":        {func(e *executor, _ *listener) error { _, err := e.JobGetAvailable(ctx, nil); return err }, false},
		"resign leadership": {func(e *executor, _ *listener) error { _, err := e.LeaderResign(ctx, nil); return err }, true},
		"unlisten":          {func(_ *executor, l *listener) error { return l.Unlisten(ctx, "x") }, false},
		"rollback": {func(e *executor, _ *listener) error {
			tx, err := e.Begin(ctx)
			return errors.Join(err, tx.Rollback(ctx))
		}, false},
		"store results": {func(e *executor, _ *listener) error {
			_, err := e.JobSetStateIfRunningMany(ctx, &riverdriver.JobSetStateIfRunningManyParams{})
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop, requestStop, end := newStop()
			requestStop()
			db := &silent{called: make(chan struct{}, 1)}
			done := make(chan error, 1)
			go func() {
				done <- c.call(&executor{Executor: db, stop: stop}, &listener{Listener: &silentListener{silent: db}, stop: stop})
			}()
			<-db.called
			require.Empty(t, done, "the call waits for the database until the grace period is over")
			end()
			if err := <-done; c.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
		})
	}
}

// failing is a database on which the first attempts to store the results of jobs fail.
type failing struct {
	riverdriver.Executor
	fails, tries int
	onTry        func()
}

func (f *failing) JobSetStateIfRunningMany(_ context.Context, p *riverdriver.JobSetStateIfRunningManyParams) ([]*rivertype.JobRow, error) {
	f.tries++
	if f.onTry != nil {
		f.onTry()
	}
	if f.tries <= f.fails {
		return nil, errors.New("away")
	}
	return make([]*rivertype.JobRow, len(p.ID)), nil
}

func TestExecutor_JobSetStateIfRunningMany_attempts(t *testing.T) {
	t.Parallel()
	const forEver = 1 << 30
	params := &riverdriver.JobSetStateIfRunningManyParams{ID: []int64{1, 2}}
	for name, c := range map[string]struct {
		fails, stopAt, tries int
		stored               bool
	}{
		"success":                                     {0, 0, 1, true},
		"stopping before, success":                    {0, -1, 1, true},
		"stopping before, one attempt":                {forEver, -1, 1, false},
		"stopping in the third attempt, one more":     {forEver, 3, 4, false},
		"stopping in the third attempt, then success": {3, 3, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop, requestStop, _ := newStop()
			clk, _ := stop.clock.(*clock.Fake)
			db := &failing{fails: c.fails}
			db.onTry = func() {
				if db.tries == c.stopAt {
					requestStop()
				}
			}
			if c.stopAt < 0 {
				requestStop()
			}
			done := make(chan error, 1)
			go func() {
				rows, err := (&executor{Executor: db, stop: stop}).JobSetStateIfRunningMany(t.Context(), params)
				if err == nil && len(rows) != len(params.ID) {
					err = errors.New("rows are missing")
				}
				done <- err
			}()
			for range c.stopAt - 1 { // the pauses before the stop
				require.NoError(t, clk.Await(t.Context(), 1))
				clk.Advance(time.Minute)
			}
			err := <-done
			require.Equal(t, c.tries, db.tries)
			require.Equal(t, c.stored, err == nil, "%v", err)
			if !c.stored {
				require.ErrorIs(t, err, context.Canceled, "River would retry any other error, with its own pauses")
				require.ErrorContains(t, err, "away")
			}
		})
	}
}

func TestClient_watch_graceBeginsWithStop(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	c := &Client{grace: 3 * time.Second}
	c.stop, c.requestStop, c.end = newStop()
	c.stop.clock = clk
	ctx, cancel := context.WithCancel(t.Context())
	stopWatch := c.watch(ctx)
	require.NoError(t, c.stop.stopping.Err(), "no stop was requested")
	cancel()
	<-c.stop.stopping.Done()
	require.NoError(t, clk.Await(t.Context(), 1))
	clk.Advance(3*time.Second - time.Microsecond)
	require.NoError(t, c.stop.expired.Err())
	clk.Advance(time.Microsecond)
	<-c.stop.expired.Done()
	stopWatch()
}
