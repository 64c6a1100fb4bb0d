package transfer

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Owners transfers what users own.
type Owners struct {
	Pool   *pgxpool.Pool
	Jobs   *job.Store
	Ledger quota.Ledger
	Trail  db.Recorder
}

// Transfer transfers the resources of a user to another user, and returns the counts. The first step transfers all jobs
// that hold GPUs. If the new owner's quota refuses them, nothing is transferred. Each further step transfers a bounded
// number of the remaining resources; engines come last. After an error, a repeated call continues the transfer.
func (o *Owners) Transfer(ctx context.Context, from string, to Person) (Counts, error) {
	moved, err := o.step(ctx, holdingJobs, from, to)
	if err != nil {
		return Counts{}, err
	}
	for {
		more, err := o.step(ctx, nextJobs, from, to)
		if fault.Is(err, fault.Conflict) {
			// A job has got GPUs since the first step. Do not report a conflict, which means that nothing was transferred.
			err = fault.New(fault.Unavailable, "transfer_unfinished", "a job started during the transfer; repeat the request to transfer the rest").Wrap(err)
		}
		if err != nil {
			return Counts{}, err
		}
		if more == (Counts{}) {
			return moved, o.moveEngines(ctx, from, to.ID)
		}
		moved.Jobs, moved.Runs = moved.Jobs+more.Jobs, moved.Runs+more.Runs
	}
}

// moveEngines transfers the engines, each step in a transaction of its own.
func (o *Owners) moveEngines(ctx context.Context, from, to string) error {
	for {
		if n, err := moveEngines(ctx, o.Pool, from, to); n == 0 || err != nil {
			return err
		}
	}
}

// step transfers some jobs with their runs, works and GPUs in one transaction. When no jobs are left, it transfers runs.
// It locks the jobs first, as package lifecycle does, then the accounts and the works.
func (o *Owners) step(ctx context.Context, which, from string, to Person) (moved Counts, err error) {
	err = pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		jobs, err := lockJobs(ctx, tx, which, from)
		if err != nil {
			return err
		}
		runs, err := o.moveJobs(ctx, tx, jobs, from, to)
		if err != nil {
			return err
		}
		if len(jobs) == 0 && which == nextJobs {
			if runs, err = nextRuns(ctx, tx, from); err != nil {
				return err
			}
			if runs, err = moveRuns(ctx, tx, runs, from, to); err != nil {
				return err
			}
		}
		moved = Counts{Jobs: len(jobs), Runs: len(runs)}
		return o.record(ctx, tx, jobs, runs, from, to)
	})
	return moved, err
}

func (o *Owners) moveJobs(ctx context.Context, tx pgx.Tx, jobs []owned, from string, to Person) (runs []string, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i], runs = j.ID, append(runs, j.RunID)
	}
	held, err := heldBy(ctx, tx, names)
	if err != nil {
		return nil, err
	}
	if err := moveJobs(ctx, tx, names, to); err != nil {
		return nil, err
	}
	if runs, err = moveRuns(ctx, tx, runs, from, to); err != nil {
		return nil, err
	}
	if err := o.Ledger.Move(ctx, tx, from, to.ID, held); err != nil {
		return nil, err
	}
	return runs, moveWorks(ctx, tx, names, to.ID)
}

// record writes the audit rows and the events. Ended jobs get no event, because they already have their last one.
func (o *Owners) record(ctx context.Context, tx pgx.Tx, jobs []owned, runs []string, from string, to Person) error {
	after := map[string]string{"owner_id": to.ID, "former_owner_id": from}
	for _, j := range jobs {
		if err := o.Trail.Record(ctx, tx, "job.transfer", kindJob, j.ID, after); err != nil {
			return err
		}
		if j.Ended {
			continue
		}
		live, err := o.Jobs.Lock(ctx, tx, j.ID)
		if err != nil {
			return err
		}
		cause := job.Cause{Type: EventTransferred, Message: "transferred to " + to.Name}
		if err := o.Jobs.Save(ctx, tx, live, live.State, cause); err != nil {
			return err
		}
	}
	for _, id := range runs {
		if err := o.Trail.Record(ctx, tx, "run.transfer", kindRun, id, after); err != nil {
			return err
		}
	}
	return nil
}
