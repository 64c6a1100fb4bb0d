package drive

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Pause asks a running job for a checkpoint, after which what runs is ended.
// also runs in the same transaction when the job was changed.
func (d *Driver) Pause(ctx context.Context, jobID string, also func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error) {
	var paused *job.Job
	err := d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *scene) error {
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
		return also(ctx, tx)
	})
	return paused, err
}

// Resume puts a paused job back into the queue. also runs in the same transaction.
func (d *Driver) Resume(ctx context.Context, jobID string, also func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error) {
	var resumed *job.Job
	err := d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *scene) error {
		resumed = s.job
		if err := s.job.Resume(s.now); err != nil {
			return err
		}
		if err := d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{Type: "job.resumed"}); err != nil {
			return err
		}
		return also(ctx, tx)
	})
	return resumed, err
}

// endGrace ends what runs of a pause whose time is over, or takes the pause back.
func (d *Driver) endGrace(ctx context.Context, tx pgx.Tx, s *scene, end job.GraceEnd) error {
	if end == job.GraceGivenUp {
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

// present runs fn on the locked job of a run whose present attempt this is.
func (d *Driver) present(
	ctx context.Context, runID string, attempt int, what string, fn func(ctx context.Context, tx pgx.Tx, s *scene) error,
) error {
	jobID, err := d.Jobs.IDOfRun(ctx, d.Pool, runID)
	if err != nil {
		return err
	}
	return d.step(ctx, jobID, func(ctx context.Context, tx pgx.Tx, s *scene) error {
		if s.attempt == nil || s.attempt.Number != attempt {
			return fault.New(fault.Conflict, "stale_attempt",
				"%s: attempt %d is not the run's present attempt %d", what, attempt, s.job.Attempt)
		}
		return fn(ctx, tx, s)
	})
}

// Register keeps in mind a checkpoint that an attempt registered.
func (d *Driver) Register(ctx context.Context, runID string, c job.Checkpoint) error {
	return d.present(ctx, runID, c.Attempt, "checkpoint", func(ctx context.Context, tx pgx.Tx, s *scene) error {
		if !s.job.Register(c) {
			return nil
		}
		return d.Jobs.Save(ctx, tx, s.job, s.before,
			job.Cause{Type: "job.checkpoint", ActorKind: "run", ActorID: runID, Reason: c.ArtifactID})
	})
}

// Ack takes the training's word that it has done what a signal asked; of a pause, what runs is ended then. It
// answers what is asked next.
func (d *Driver) Ack(ctx context.Context, runID string, attempt int, signalID string) (job.Asked, error) {
	var next job.Asked
	err := d.present(ctx, runID, attempt, "signal", func(ctx context.Context, tx pgx.Tx, s *scene) error {
		changed, err := s.job.Ack(signalID, s.now)
		next = s.job.Asks()
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

// Next answers what the training of an attempt is asked now, and keeps in mind that it asks.
func (d *Driver) Next(ctx context.Context, runID string, attempt int) (job.Asked, error) {
	jobID, err := d.Jobs.IDOfRun(ctx, d.Pool, runID)
	if err != nil {
		return job.Asked{}, err
	}
	j, err := d.Jobs.Look(ctx, d.Pool, jobID)
	if err != nil {
		return job.Asked{}, err
	}
	if j.Attempt != attempt {
		return job.Asked{}, fault.New(fault.Conflict, "stale_attempt",
			"signal: attempt %d is not the run's present attempt %d", attempt, j.Attempt)
	}
	if err := d.Jobs.Listens(ctx, d.Pool, jobID, attempt); err != nil {
		return job.Asked{}, err
	}
	return j.Asks(), nil
}
