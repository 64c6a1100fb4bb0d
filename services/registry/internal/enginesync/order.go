// Package enginesync connects revisions with the jobs service, which runs their engines. It sends the wanted state of
// each engine to the jobs service, and applies to the revision the state that the jobs service reports. A lost message
// does no harm: an order is repeated until the jobs service has it, and every watch begins with the state of all works.
package enginesync

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// OrderTimeout is the time limit for one attempt to send an order.
const OrderTimeout = 15 * time.Second

// OrderArgs is the queued order of one revision. It contains only the ID, because the worker sends the state that the
// revision has when the worker runs.
type OrderArgs struct {
	RevisionID string `json:"revision_id"`
}

// Kind implements river.JobArgs.
func (OrderArgs) Kind() string { return "engine_order" }

// checkTimeout is the time limit for the check of a pool.
const checkTimeout = 5 * time.Second

// Pools lets the jobs service check a pool before an engine is ordered. It implements deployment.Pools.
type Pools struct {
	Works jobspeerv1.WorkPeerServiceClient
}

// Check returns the refusal of the jobs service if no node of the pool isolates works as the pool requires, or if only
// Slurm fleets serve it. During an
// upgrade, the jobs service may still be an older version that lacks this call and runs engines on every node of a
// pool. Check then returns nil.
func (p *Pools) Check(ctx context.Context, pool string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err := p.Works.CheckPool(ctx, &jobspeerv1.CheckPoolRequest{Pool: pool})
	if fault.Is(err, fault.Unconfigured) && !fault.HasCode(err, codeSlurmEngine) {
		return nil
	}
	return err
}

// codeSlurmEngine is the code with which the jobs service refuses engines of pools that only Slurm fleets serve.
const codeSlurmEngine = "slurm_engine"

// Orders queues orders. Each order is queued in the transaction of the change that needs it.
type Orders struct {
	Queue *bgjob.Client
}

// Order implements deployment.Orders.
func (o *Orders) Order(ctx context.Context, tx pgx.Tx, revisionID string) error {
	_, err := o.Queue.InsertTx(ctx, tx, OrderArgs{RevisionID: revisionID}, nil)
	return err
}

// Orderer is the worker of the queued orders.
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

// put sends the wanted state of a revision to the jobs service.
func (o *Orderer) put(ctx context.Context, r *revision.Revision) error {
	ctx, cancel := context.WithTimeout(ctx, OrderTimeout)
	defer cancel()
	_, err := o.Works.PutWork(ctx, orderToProto(r))
	if fault.Is(err, fault.Conflict) {
		return nil // The jobs service already has a newer generation.
	}
	if err != nil {
		return fmt.Errorf("order the engine of revision %s: %w", r.ID, err)
	}
	return nil
}

// drop orders the jobs service to end a work that no revision wants. If a revision now wants the work, drop sends the
// order of that revision instead.
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
		return fmt.Errorf("end work %s: %w", workID, err)
	}
	return nil
}
