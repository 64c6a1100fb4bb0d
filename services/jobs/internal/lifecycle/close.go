package lifecycle

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Decided returns the decided end of the job of a run. It returns nil if the run has no job, and if the end of the job
// is not decided or the job has ended.
func (d *Driver) Decided(ctx context.Context, runID string) (*job.Closing, error) {
	return d.Jobs.Closing(ctx, d.Pool, runID)
}

// Commit ends the job of a run as decided. The parameter closed reports whether the streams of the run are closed. If no
// end is decided or the job has ended, Commit changes nothing.
func (d *Driver) Commit(ctx context.Context, runID string, closed bool) error {
	jobID, err := d.Jobs.IDOfRun(ctx, d.Pool, runID)
	if fault.Is(err, fault.Absent) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		if s.attempt == nil || s.attempt.Over() || s.attempt.Closing == nil {
			return nil
		}
		c := s.attempt.Closing
		s.job.Conclude(s.attempt, closed)
		if err := d.Jobs.SaveAttempt(ctx, tx, s.attempt); err != nil {
			return err
		}
		return d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{
			ActorKind: c.ActorKind, ActorID: c.ActorID, Reason: c.Outcome.Reason, Message: c.Outcome.Message, Closed: true,
		})
	})
}
