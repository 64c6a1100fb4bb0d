// Package engine carries what revisions want to jobs, which runs engines, and what jobs sees of them back
// to the revisions. Both ways are level-triggered: an order is repeated until jobs has it, and every watch
// begins with the whole, so that nothing that was lost on the way stays lost.
package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/queue"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// OrderTimeout bounds one try of an order.
const OrderTimeout = 15 * time.Second

// OrderArgs is the queued order of one revision. It names the row and nothing of it: whoever works it
// tells jobs what the row says by then.
type OrderArgs struct {
	RevisionID string `json:"revision_id"`
}

// Kind implements river.JobArgs.
func (OrderArgs) Kind() string { return "engine_order" }

// Orders queues orders in the transaction that wants them.
type Orders struct {
	Queue *queue.Client
}

// Order implements deployment.Orders.
func (o *Orders) Order(ctx context.Context, tx pgx.Tx, revisionID string) error {
	_, err := o.Queue.InsertTx(ctx, tx, OrderArgs{RevisionID: revisionID}, nil)
	return err
}

// Orderer works the queued orders.
type Orderer struct {
	river.WorkerDefaults[OrderArgs]

	Pool      *pgxpool.Pool
	Revisions *revision.Store
	Works     jobspeerv1.WorkPeerServiceClient
}

// Work implements river.Worker.
func (o *Orderer) Work(ctx context.Context, job *river.Job[OrderArgs]) error {
	r, err := o.Revisions.ByID(ctx, o.Pool, job.Args.RevisionID)
	if fault.Is(err, fault.Absent) {
		return river.JobCancel(fmt.Errorf("order an engine: %w", err))
	}
	if err != nil {
		return err
	}
	return o.put(ctx, r)
}

// put tells jobs what a revision wants.
func (o *Orderer) put(ctx context.Context, r *revision.Revision) error {
	ctx, cancel := context.WithTimeout(ctx, OrderTimeout)
	defer cancel()
	_, err := o.Works.PutWork(ctx, orderToProto(r))
	if fault.Is(err, fault.Conflict) {
		return nil // A newer generation was told meanwhile.
	}
	if err != nil {
		return fmt.Errorf("order the engine of revision %s: %w", r.ID, err)
	}
	return nil
}

// drop tells jobs that nobody wants a work.
func (o *Orderer) drop(ctx context.Context, workID string, generation int64) error {
	ctx, cancel := context.WithTimeout(ctx, OrderTimeout)
	defer cancel()
	r, err := o.Revisions.ByWork(ctx, o.Pool, workID)
	if err == nil {
		return o.put(ctx, r)
	}
	if !fault.Is(err, fault.Absent) {
		return err
	}
	_, err = o.Works.PutWork(ctx, goneToProto(workID, generation))
	if err != nil && !fault.Is(err, fault.Conflict) {
		return fmt.Errorf("drop the work %s: %w", workID, err)
	}
	return nil
}
