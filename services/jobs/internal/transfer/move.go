package transfer

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// Transfer transfers the resources of the user from to another user, and returns the counts. It locks the jobs first,
// as package lifecycle does, then the accounts and the works.
func (o *Owners) Transfer(ctx context.Context, from string, to Person) (Counts, error) {
	var moved Counts
	err := pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		jobs, err := lockJobs(ctx, tx, from)
		if err != nil {
			return err
		}
		held, err := heldBy(ctx, tx, from)
		if err != nil {
			return err
		}
		runs, err := moveRows(ctx, tx, from, to)
		if err != nil {
			return err
		}
		if err := o.Ledger.Move(ctx, tx, from, to.ID, held); err != nil {
			return err
		}
		if err := moveWorks(ctx, tx, from, to.ID); err != nil {
			return err
		}
		moved = Counts{Jobs: len(jobs), Runs: len(runs)}
		return o.record(ctx, tx, jobs, runs, from, to)
	})
	return moved, err
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
