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

// Reconciler periodically enforces the limits of jobs and gives up the work of silent and removed nodes. RunOnce is one
// pass.
type Reconciler struct {
	Pool   *pgxpool.Pool
	Driver *Driver
	Nodes  *fleet.Liveness
	Works  *assignment.Store
	Clock  clock.Clock
	// Lease is how long a node remains ready after its last message. Fence is the time from the last message of a
	// node until the node's works are given up.
	Lease, Fence time.Duration
	// Interval is the longest pause between two passes of a leader that can reach the database.
	Interval time.Duration
	// JoinPatience is how long a node that has joined may take to connect.
	JoinPatience time.Duration

	passed, resumed time.Time // the end of the last pass, and the start of the first one after an interruption
}

// RunOnce runs one pass. This replica became the leader at the given time. The silence of a node counts only from then
// on, because before that the node had no server to connect to. It does not count while the database is unreachable
// either, because then no message of the node can be stored. So after a change of the leader or an outage of the
// database, no node is declared lost before Lease has passed, and no work is given up before Fence has passed.
func (r *Reconciler) RunOnce(ctx context.Context, since time.Time) error {
	now, err := pg.Now(ctx, r.Pool)
	if err != nil {
		return err
	}
	heard := r.listening(since)
	defer func() { r.passed = r.Clock.Now() }()
	errs := []error{r.enforce(ctx, now), r.abandon(ctx)}
	if heard >= r.Lease {
		errs = append(errs, r.Nodes.Expire(ctx, r.Lease), r.Nodes.ExpireJoining(ctx, r.JoinPatience))
	}
	if heard >= max(r.Fence, r.Lease) {
		errs = append(errs, r.fence(ctx))
	}
	return errors.Join(errs...)
}

// listening returns how long passes have reached the database without an interruption. This replica became the leader
// at the given time; earlier time does not count. An interruption shorter than half of Fence does no harm, because
// leases are renewed more often than that.
func (r *Reconciler) listening(since time.Time) time.Duration {
	if now := r.Clock.Now(); !r.passed.IsZero() && now.Sub(r.passed) > max(r.Lease, r.Fence/2)+r.Interval {
		r.resumed = now
	}
	if r.resumed.After(since) {
		since = r.resumed
	}
	return clock.Since(r.Clock, since)
}

// fence releases the works of nodes that have been silent for the time Fence, unless a work's lease was renewed. A node
// counts as lost once it has been silent for the time Lease, so fence looks for nodes lost for Fence - Lease.
func (r *Reconciler) fence(ctx context.Context) error {
	now, err := pg.Now(ctx, r.Pool) // read after Expire, so that it is not earlier than any lost_at
	if err != nil {
		return err
	}
	renewed := now.Add(-r.Fence)
	nodes, err := r.Nodes.NodesToFence(ctx, now.Add(-max(0, r.Fence-r.Lease)), renewed)
	if err != nil {
		return err
	}
	return release(ctx, nodes, func(ctx context.Context, nodeID string) error { return r.Driver.Lose(ctx, nodeID, renewed) })
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
func (r *Reconciler) enforce(ctx context.Context, now time.Time) error {
	rows, err := r.Pool.Query(ctx, `SELECT id FROM job WHERE ended_at IS NULL AND (
			((state = 'queued' OR state = 'scheduled' AND batch_held) AND queued_at + make_interval(secs => queued_s) <= $1)
			OR (state = 'pausing' AND signal_acked_at IS NULL AND signal_deadline <= $1)
			OR (state IN ('scheduled', 'starting', 'running') AND NOT batch_held AND NOT EXISTS (SELECT FROM attempt a
				WHERE a.job_id = job.id AND a.number = job.attempt AND a.phase IN ('collecting', 'exited')) AND coalesce(
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
