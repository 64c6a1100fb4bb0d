package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// Reconciler does periodically what is due. RunOnce is one pass.
type Reconciler struct {
	Pool   *pgxpool.Pool
	Driver *Driver
	Nodes  *fleet.Liveness
	Works  *assignment.Store
	Clock  clock.Clock
	// Lease is how long a node remains ready after its last message. Fence is how long after its last message its works
	// are given up.
	Lease, Fence time.Duration
	// JoinPatience is how long a node that has joined may take to connect.
	JoinPatience time.Duration
}

// RunOnce runs one pass. since is when this replica became the leader. Nodes are not declared lost until a lease
// has passed since then, because nodes may have had no server to connect to before.
func (r *Reconciler) RunOnce(ctx context.Context, since time.Time) error {
	errs := []error{r.enforce(ctx), r.abandon(ctx)}
	if clock.Since(r.Clock, since) >= r.Lease {
		errs = append(errs, r.Nodes.Expire(ctx, r.Lease), r.Nodes.ExpireJoining(ctx, r.JoinPatience), r.fence(ctx))
	}
	errs = append(errs, r.Works.Purge(ctx, r.Pool))
	return errors.Join(errs...)
}

// fence releases the works of nodes that have been silent for Fence. A node is marked as lost after it has been silent
// for Lease, so it must then have been lost for Fence - Lease.
func (r *Reconciler) fence(ctx context.Context) error {
	nodes, err := r.Nodes.NodesToFence(ctx, max(0, r.Fence-r.Lease))
	if err != nil {
		return err
	}
	return release(ctx, nodes, r.Driver.Lose)
}

// abandon releases the works of nodes that were removed.
func (r *Reconciler) abandon(ctx context.Context) error {
	nodes, err := r.Nodes.RemovedNodes(ctx)
	if err != nil {
		return err
	}
	return release(ctx, nodes, r.Driver.Abandon)
}

func release(ctx context.Context, nodes []string, give func(ctx context.Context, nodeID string) error) error {
	var errs []error
	for _, id := range nodes {
		if err := give(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("release the works of node %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// batch is the maximum number of jobs that one pass handles.
const batch = 500

// enforce handles jobs that have passed a limit. The driver checks each again under its lock.
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
		return fmt.Errorf("find jobs past a limit: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("find jobs past a limit: %w", err)
	}
	var errs []error
	for _, id := range due {
		if err := r.Driver.Enforce(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("enforce the limits of job %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}
