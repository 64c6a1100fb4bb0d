package hardware

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/wake"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/topic"
)

const (
	// Lease is how long an instance answers from its copy without asking. It is also the longest that a change
	// waits for an instance that was killed.
	Lease = 5 * time.Second
	// renewEvery leaves room for a try that fails.
	renewEvery = Lease / 3
	// leaveWithin bounds the last deed of an instance.
	leaveWithin = time.Second
)

// Copy is what one instance keeps of the configuration.
type Copy struct {
	Pool    *pgxpool.Pool
	Store   Store
	Hub     *wake.Hub
	Clock   clock.Clock
	Mono    func() time.Duration // a clock that nobody can set
	Replica string               // the instance's name
	Log     *slog.Logger

	mu    sync.Mutex
	kept  *Version
	until time.Duration // of Mono
}

// Current answers the configuration in force: the copy under its lease, the rows without one.
func (c *Copy) Current(ctx context.Context) (*Version, error) {
	c.mu.Lock()
	kept, live := c.kept, c.Mono() < c.until
	c.mu.Unlock()
	if live {
		return kept, nil
	}
	return c.Store.Head(ctx, c.Pool)
}

// Renew takes the newest configuration and a lease. The copy is in place before the row says so: whoever reads
// the row knows that nothing older is answered.
func (c *Copy) Renew(ctx context.Context) error {
	asked := c.Mono()
	err := pg.InTx(ctx, c.Pool, func(ctx context.Context, tx pgx.Tx) error {
		newest, err := c.Store.Share(ctx, tx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.kept = newest
		c.mu.Unlock()
		return c.Store.Renew(ctx, tx, c.Replica, newest.Number, Lease)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = asked + Lease
	return wake.Notify(ctx, c.Pool, topic.HardwareTaken)
}

// Run keeps the copy fresh until ctx ends, and gives the lease back then.
func (c *Copy) Run(ctx context.Context) error {
	changed := c.Hub.Wait(topic.Hardware)
	defer changed.Close()
	tick := c.Clock.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		if err := c.Renew(ctx); err != nil && ctx.Err() == nil {
			c.Log.WarnContext(ctx, "the hardware configuration was not renewed", "error", err)
		}
		select {
		case <-ctx.Done():
			return c.leave(ctx)
		case <-changed.C:
		case <-tick.C():
		}
	}
}

// leave ends the lease here before it is given back there.
func (c *Copy) leave(ctx context.Context) error {
	c.mu.Lock()
	c.until = 0
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if err := c.Store.Leave(ctx, c.Pool, c.Replica); err != nil {
		c.Log.WarnContext(ctx, "the lease of the hardware configuration was not given back", "error", err)
	}
	return nil
}
