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
	// hold is how long a turn may take: four calls and what is around them. Whoever died with it frees it so.
	hold = 4*callTime + 10*time.Second
	// patience is how long a test waits for the one that runs.
	patience = hold
	askEvery = 250 * time.Millisecond
)

// ErrBusy is that the other tests took longer than anybody waits.
var ErrBusy = errors.New("another test is running")

// Turn lets one test at a time run, over all replicas. It holds no connection while it is held or waited for.
type Turn struct {
	Pool  *pgxpool.Pool
	Clock clock.Clock
}

// Take waits for the turn. give ends it.
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
		if err := clock.Sleep(ctx, t.Clock, askEvery); err != nil {
			return nil, fmt.Errorf("wait for the test that runs: %w", err)
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
		return false, fmt.Errorf("take the turn of the model's test: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// give ends the turn. Where that fails it ends by itself.
func (t Turn) give(ctx context.Context, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = t.Pool.Exec(ctx, `UPDATE agent_model_test SET until = 'epoch' WHERE holder = $1`, holder)
}
