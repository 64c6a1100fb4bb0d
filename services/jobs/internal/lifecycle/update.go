package lifecycle

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
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
		limit := s.job.BatchLimit()
		if err := change(s.job); err != nil {
			return err
		}
		if err := s.fitsBatch(limit); err != nil {
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

// fitsBatch refuses a longer time for an attempt that a batch system has, because that ends it at the limit with which it
// was submitted.
func (s *lockedJob) fitsBatch(limit time.Duration) error {
	if s.job.BatchLimit() <= limit {
		return nil
	}
	for _, w := range s.works {
		if w.Batch && w.Exit == nil && !w.Released() {
			return fault.New(fault.Conflict, "batch_limit", "limits: Slurm ends attempt %d of job %s at the time limit with which it was submitted; "+
				"pause the job, raise the limit, and resume the job", s.attempt.Number, s.job.ID)
		}
	}
	return nil
}
