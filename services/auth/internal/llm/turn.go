package llm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	// hold is how long a turn is valid: the maximum time of the four calls of a test, and a margin. If a process stops
	// during a test, its turn expires after this time.
	hold = 4*callTime + 10*time.Second
	// patience is how long a test waits for its turn.
	patience  = hold
	pollEvery = 250 * time.Millisecond
)

// ErrBusy means that the wait for the turn exceeded the time patience because other tests were running.
var ErrBusy = errors.New("another test is running")

// Turn lets one test run at a time across all replicas. It uses no database connection while a test runs or waits.
type Turn struct {
	Pool  *pgxpool.Pool
	Clock clock.Clock
}

// Take waits for the turn and returns the function that ends it.
func (t Turn) Take(ctx context.Context, holder string) (give func(), err error) {
	since := t.Clock.Now()
	for {
		got, err := t.try(ctx, holder)
		switch {
		case err != nil:
			return nil, err
		case got:
			return func() { t.give(ctx, holder) }, nil
		case clock.Since(t.Clock, since) >= patience:
			return nil, ErrBusy
		}
		if err := clock.Sleep(ctx, t.Clock, pollEvery); err != nil {
			return nil, fmt.Errorf("wait for the running test: %w", err)
		}
	}
}

func (t Turn) try(ctx context.Context, holder string) (bool, error) {
	now, err := pg.Now(ctx, t.Pool)
	if err != nil {
		return false, err
	}
	tag, err := t.Pool.Exec(ctx, `UPDATE agent_model_test SET holder = $1, until = $3 WHERE until <= $2`, holder, now, now.Add(hold))
	if err != nil {
		return false, fmt.Errorf("take the turn for the model test: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// give ends the turn. It ignores an error, because the turn expires by itself.
func (t Turn) give(ctx context.Context, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = t.Pool.Exec(ctx, `UPDATE agent_model_test SET until = 'epoch' WHERE holder = $1`, holder)
}
