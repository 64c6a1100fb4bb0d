package lifecycle

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Update runs the function change on a locked job and saves the job. It calls the function extra in the same
// transaction.
func (d *Driver) Update(
	ctx context.Context, jobID string, change func(j *job.Job) error, extra func(ctx context.Context, tx pgx.Tx) error,
) (*job.Job, error) {
	var updated *job.Job
	err := d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		updated = s.job
		if err := change(s.job); err != nil {
			return err
		}
		if err := d.Jobs.SaveFacts(ctx, tx, s.job); err != nil {
			return err
		}
		if err := d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{Type: "job.updated"}); err != nil {
			return err
		}
		return extra(ctx, tx)
	})
	return updated, err
}
