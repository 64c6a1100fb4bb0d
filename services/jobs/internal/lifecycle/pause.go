package lifecycle

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Pause requests a checkpoint from a running job; its processes are stopped afterwards. If this changes the job, Pause
// calls the function extra in the same transaction.
func (d *Driver) Pause(ctx context.Context, jobID string, extra func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error) {
	var paused *job.Job
	err := d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		paused = s.job
		changed, err := s.job.Pause(s.attempt, d.IDs.New(id.Signal), s.now)
		if err != nil || !changed {
			return err
		}
		if err := d.Jobs.SaveAttempt(ctx, tx, s.attempt); err != nil {
			return err
		}
		if err := d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{}); err != nil {
			return err
		}
		// A drain resumes the jobs that it has paused. This pause is the caller's.
		if err := d.Jobs.ForgetDrain(ctx, tx, jobID); err != nil {
			return err
		}
		return extra(ctx, tx)
	})
	return paused, err
}

// Resume puts a paused job back into the queue. It calls the function extra in the same transaction.
func (d *Driver) Resume(ctx context.Context, jobID string, extra func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error) {
	var resumed *job.Job
	err := d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		resumed = s.job
		if err := s.job.Resume(s.now); err != nil {
			return err
		}
		if err := d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{Type: "job.resumed"}); err != nil {
			return err
		}
		return extra(ctx, tx)
	})
	return resumed, err
}

// endGrace handles a pause whose grace period is over: it stops the processes or cancels the pause.
func (d *Driver) endGrace(ctx context.Context, tx pgx.Tx, s *lockedJob, end job.GraceEnd) error {
	if end == job.GraceAbandoned {
		s.job.KeepRunning(s.attempt)
		if err := d.Jobs.SaveAttempt(ctx, tx, s.attempt); err != nil {
			return err
		}
		return d.Jobs.Save(ctx, tx, s.job, s.before,
			job.Cause{Type: "job.pause_given_up", Reason: "no_checkpoint", Message: s.job.NoCheckpointWords()})
	}
	s.job.Signal.Deadline = nil
	if err := d.halt(ctx, tx, s, false); err != nil {
		return err
	}
	return d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{Type: "job.pause_forced", Reason: "grace_over"})
}

// withCurrent runs fn on the locked job of a run. It returns a conflict if the given attempt is not the current one.
// The message of the conflict begins with the given text.
func (d *Driver) withCurrent(
	ctx context.Context, runID string, attempt int, what string, fn func(ctx context.Context, tx pgx.Tx, s *lockedJob) error,
) error {
	jobID, err := d.Jobs.IDOfRun(ctx, d.Pool, runID)
	if err != nil {
		return err
	}
	return d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		if s.attempt == nil || s.attempt.Number != attempt {
			return fault.New(fault.Conflict, "stale_attempt",
				"%s: attempt %d is not the run's current attempt %d", what, attempt, s.job.Attempt)
		}
		return fn(ctx, tx, s)
	})
}

// Register records a checkpoint that an attempt registered.
func (d *Driver) Register(ctx context.Context, runID string, c job.Checkpoint) error {
	return d.withCurrent(ctx, runID, c.Attempt, "checkpoint", func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		if !s.job.Register(c) {
			return nil
		}
		return d.Jobs.Save(ctx, tx, s.job, s.before,
			job.Cause{Type: "job.checkpoint", ActorKind: "run", ActorID: runID, Reason: c.ArtifactID})
	})
}

// Ack records that the training has carried out a signal, and returns the next signal. If the job is pausing, its
// processes are stopped now.
func (d *Driver) Ack(ctx context.Context, runID string, attempt int, signalID string) (job.PendingSignal, error) {
	var next job.PendingSignal
	err := d.withCurrent(ctx, runID, attempt, "signal", func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		changed, err := s.job.Ack(signalID, s.now)
		next = s.job.CurrentSignal()
		if err != nil || !changed {
			return err
		}
		if s.job.State == job.Pausing {
			if err := d.halt(ctx, tx, s, false); err != nil {
				return err
			}
		}
		return d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{Type: "job.signal_acked", ActorKind: "run", ActorID: runID})
	})
	return next, err
}

// Next returns the current signal to the training of an attempt, and records that the training polls for signals.
func (d *Driver) Next(ctx context.Context, runID string, attempt int) (job.PendingSignal, error) {
	j, err := d.Jobs.SignalOf(ctx, d.Pool, runID)
	if err != nil {
		return job.PendingSignal{}, err
	}
	if j.Attempt != attempt {
		return job.PendingSignal{}, fault.New(fault.Conflict, "stale_attempt",
			"signal: attempt %d is not the run's current attempt %d", attempt, j.Attempt)
	}
	signal := j.CurrentSignal()
	return signal, d.Jobs.MarkListening(ctx, d.Pool, j.ID, attempt, signal.ID)
}
