package drive

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Report applies a lifecycle event that the training of an attempt reported. An attempt that is no
// longer the run's present one is a conflict.
func (d *Driver) Report(ctx context.Context, runID string, attempt int, event, message string) (bool, error) {
	jobID, err := d.Jobs.IDOfRun(ctx, d.Pool, runID)
	if err != nil {
		return false, err
	}
	var applied bool
	err = d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *scene) error {
		if s.attempt == nil || s.attempt.Number != attempt {
			return fault.New(fault.Conflict, "stale_attempt",
				"lifecycle: attempt %d is not the run's present attempt %d", attempt, s.job.Attempt)
		}
		var err error
		if applied, err = s.job.Report(s.attempt, event, message, s.now); err != nil || !applied {
			return err
		}
		if err := d.Jobs.SaveAttempt(ctx, tx, s.attempt); err != nil {
			return err
		}
		cause := job.Cause{ActorKind: "run", ActorID: runID, Reason: "reported_" + event, Message: message}
		if s.job.State == s.before {
			cause.Type = "job.reported"
		}
		return d.Jobs.Save(ctx, tx, s.job, s.before, cause)
	})
	return applied, err
}
