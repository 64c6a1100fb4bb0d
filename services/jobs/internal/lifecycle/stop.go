package lifecycle

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Stop stops a job for a reason. With force its processes get no grace period. If the job has already ended, Stop
// returns a conflict. If anything changed, Stop calls the function extra in the same transaction.
func (d *Driver) Stop(
	ctx context.Context, jobID, reason string, force bool, cause job.Cause, extra func(ctx context.Context, tx pgx.Tx) error,
) (*job.Job, error) {
	var stopped *job.Job
	err := d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		stopped = s.job
		changed, err := s.job.Stop(s.attempt, reason, s.now)
		if err != nil {
			return err
		}
		forced := force && s.job.State == job.Stopping && !forcedAll(s.works)
		if !changed && !forced {
			return nil
		}
		if s.job.State == job.Stopping {
			if err := d.halt(ctx, tx, s, force); err != nil {
				return err
			}
		}
		if cause.Reason = reason; !changed {
			cause.Type = "job.stop_forced"
		}
		if err := d.Jobs.Save(ctx, tx, s.job, s.before, cause); err != nil {
			return err
		}
		return extra(ctx, tx)
	})
	return stopped, err
}

func forcedAll(works []*assignment.Work) bool {
	return !slices.ContainsFunc(works, func(w *assignment.Work) bool { return !w.Force && w.Exit == nil && !w.Released() })
}

// Enforce stops a job that has passed one of its limits, and ends a pause whose grace period is over. It checks
// again under the lock, so a late or repeated call changes nothing.
func (d *Driver) Enforce(ctx context.Context, jobID string) error {
	return d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		if s.job.ExpireQueue(s.now) {
			return d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{})
		}
		if s.attempt.Collecting() {
			return nil // its processes ended within their limits
		}
		if end := s.job.GraceOver(s.now); end != job.GraceActive {
			return d.endGrace(ctx, tx, s, end)
		}
		reason := s.job.Overdue(s.now)
		if reason == "" {
			return nil
		}
		if _, err := s.job.Stop(s.attempt, reason, s.now); err != nil {
			return err
		}
		if err := d.halt(ctx, tx, s, false); err != nil {
			return err
		}
		return d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{Reason: reason})
	})
}
