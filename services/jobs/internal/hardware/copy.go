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
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

const (
	// Lease is how long an instance may serve its copy without checking the database. A change therefore waits no
	// longer than this for an instance that was killed.
	Lease = 5 * time.Second
	// renewEvery allows one renewal to fail before the lease ends.
	renewEvery = Lease / 3
	// leaveWithin limits the release of the lease at shutdown.
	leaveWithin = time.Second
)

// Copy is one instance's copy of the configuration.
type Copy struct {
	Pool    *pgxpool.Pool
	Store   Store
	Hub     *pg.NotifyHub
	Clock   clock.Clock
	Mono    func() time.Duration // a monotonic clock
	Replica string               // the instance's name
	Log     *slog.Logger

	mu    sync.Mutex
	kept  *Version
	until time.Duration // the end of the lease, by Mono
}

// Current returns the configuration in force: the copy while the lease is valid, otherwise the stored rows.
func (c *Copy) Current(ctx context.Context) (*Version, error) {
	c.mu.Lock()
	kept, live := c.kept, c.Mono() < c.until
	c.mu.Unlock()
	if live {
		return kept, nil
	}
	return c.Store.Head(ctx, c.Pool)
}

// Renew loads the newest configuration and takes a lease. It replaces the copy before it writes the row of the lease,
// so an instance never serves a version older than the one in its row.
func (c *Copy) Renew(ctx context.Context) error {
	start := c.Mono()
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
	c.until = start + Lease
	return pg.Notify(ctx, c.Pool, db.HardwareTakenTopic)
}

// Run renews the copy and its lease until ctx ends, and then releases the lease.
func (c *Copy) Run(ctx context.Context) error {
	changed := c.Hub.Wait(db.HardwareTopic)
	defer changed.Close()
	tick := c.Clock.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		if err := c.Renew(ctx); err != nil && ctx.Err() == nil {
			c.Log.WarnContext(ctx, "cannot renew the hardware configuration", "error", err)
		}
		select {
		case <-ctx.Done():
			return c.leave(ctx)
		case <-changed.C:
		case <-tick.C():
		}
	}
}

// leave ends the lease in this process, and then deletes its row.
func (c *Copy) leave(ctx context.Context) error {
	c.mu.Lock()
	c.until = 0
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if err := c.Store.Leave(ctx, c.Pool, c.Replica); err != nil {
		c.Log.WarnContext(ctx, "cannot release the lease of the hardware configuration", "error", err)
	}
	return nil
}
