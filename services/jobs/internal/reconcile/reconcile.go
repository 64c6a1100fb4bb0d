// Package reconcile looks at all rows from time to time and does what is due: limits that have
// passed, nodes that fell silent, works of nodes that are given up. It is level-triggered: whatever
// a crash or a lost wake-up left undone, the next look does.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/drive"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/work"
)

// Reconciler makes the looks.
type Reconciler struct {
	Pool   *pgxpool.Pool
	Driver *drive.Driver
	Nodes  *fleet.Keeper
	Works  *work.Store
	Clock  clock.Clock
	// Lease is how long a silent node counts as ready, Fence how long its works stay its own.
	Lease, Fence time.Duration
}

// RunOnce makes one look. since is when this replica began to lead: until a lease has passed from
// then on, silence proves nothing, because nodes may have had nobody to talk to.
func (r *Reconciler) RunOnce(ctx context.Context, since time.Time) error {
	errs := []error{r.enforce(ctx)}
	if clock.Since(r.Clock, since) >= r.Lease {
		errs = append(errs, r.Nodes.Expire(ctx, r.Lease), r.fence(ctx))
	}
	errs = append(errs, r.Works.Purge(ctx, r.Pool))
	return errors.Join(errs...)
}

// fence gives up the works of nodes that were silent for the whole fence: part of it had passed when
// they were declared lost.
func (r *Reconciler) fence(ctx context.Context) error {
	nodes, err := r.Nodes.Fenced(ctx, max(0, r.Fence-r.Lease))
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range nodes {
		if err := r.Driver.Lose(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("give up the works of node %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// batch bounds how many jobs one look ends.
const batch = 500

// enforce ends jobs that have passed a limit. The driver judges each again under its lock.
func (r *Reconciler) enforce(ctx context.Context) error {
	now, err := pg.Now(ctx, r.Pool)
	if err != nil {
		return err
	}
	rows, err := r.Pool.Query(ctx, `SELECT id FROM job WHERE ended_at IS NULL AND (
			(state = 'queued' AND queued_at + make_interval(secs => queued_s) <= $1)
			OR (state = 'pausing' AND signal_acked_at IS NULL AND signal_deadline <= $1)
			OR (state IN ('scheduled', 'starting', 'running') AND coalesce(
				coalesce(running_at, CASE WHEN own_command THEN executor_running_at END) + make_interval(secs => running_s),
				scheduled_at + make_interval(secs => starting_s)) <= $1))
		ORDER BY id LIMIT $2`, now, batch)
	if err != nil {
		return fmt.Errorf("look for jobs past a limit: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for jobs past a limit: %w", err)
	}
	var errs []error
	for _, id := range due {
		if err := r.Driver.Enforce(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("enforce the limits of job %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}
