// Package lifecycle changes jobs when something happens to their works. Packages job and assignment contain the rules;
// this package updates the rows and the quota ledger and closes runs. Each step is one transaction. A job ends in two
// steps: when its nodes have delivered what they could, its end is decided; when the streams of its run are closed, it
// gets its final state. The Reconciler periodically scans the rows and does what is due: it enforces the limits of jobs, marks nodes that sent nothing as
// lost, and releases the works of fenced nodes. The next pass does whatever a crash or a lost wake-up left undone.
//
// Rows are always locked in this order: job, works of its current attempt, account, team, nodes by ID, settings of
// pools. The work of an engine is locked after its node.
package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// Driver changes jobs in steps. Each step is one transaction on a locked job.
type Driver struct {
	Pool   *pgxpool.Pool
	Jobs   *job.Store
	Works  *assignment.Store
	Ledger quota.Ledger
	IDs    *id.Source
	// Lines finishes the lines of ended attempts; nil in tests that do not need it.
	Lines AttemptEnder
	// Meters counts the jobs that end. It may be nil.
	Meters *job.Meters
}

// AttemptEnder queues that the unfinished lines of an ended attempt are finished, if its run stays open.
type AttemptEnder interface {
	EndAttempt(ctx context.Context, tx pgx.Tx, runID string, attempt int) error
}

// lockedJob holds a locked job, its current attempt, and the works of that attempt.
type lockedJob struct {
	job     *job.Job
	before  job.State
	attempt *job.Attempt
	works   []*assignment.Work
	now     time.Time
}

// open locks a job and the works of its current attempt. The attempt is nil if the job was never placed.
func (d *Driver) open(ctx context.Context, tx pgx.Tx, jobID string) (*lockedJob, error) {
	j, err := d.Jobs.Lock(ctx, tx, jobID)
	if err != nil {
		return nil, err
	}
	s := &lockedJob{job: j, before: j.State}
	if s.now, err = pg.Now(ctx, tx); err != nil {
		return nil, err
	}
	if j.Attempt == 0 {
		return s, nil
	}
	if s.attempt, err = d.Jobs.Attempt(ctx, tx, j.ID, j.Attempt); err != nil {
		return nil, err
	}
	s.works, err = d.Works.LockAttempt(ctx, tx, j.ID, j.Attempt)
	return s, err
}

// step runs the function fn on a locked job in one transaction.
func (d *Driver) step(ctx context.Context, jobID string, fn func(ctx context.Context, tx pgx.Tx, s *lockedJob) error) error {
	var s *lockedJob
	err := pg.InTx(ctx, d.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		if s, err = d.open(ctx, tx, jobID); err != nil {
			return err
		}
		return fn(ctx, tx, s)
	})
	if err == nil && s.job.State.Terminal() && !s.before.Terminal() {
		d.Meters.End(ctx, s.job)
	}
	return err
}

// advance updates the job and the attempt from the current state of the works, and saves both.
func (d *Driver) advance(ctx context.Context, tx pgx.Tx, s *lockedJob, cause job.Cause) error {
	if s.attempt.Over() || s.attempt.Closing != nil {
		return nil
	}
	gang := gang.Combine(seen(s.works))
	cause.Type = s.job.Observe(s.attempt, gang, s.now)
	changed := cause.Type != ""
	explained := s.explain()
	if gang.Exit != nil {
		ended, err := d.end(ctx, tx, s, *gang.Exit, &cause)
		if err != nil {
			return err
		}
		changed = changed || ended
	}
	if gang.Ended && gang.Exit == nil {
		if err := d.freeQuota(ctx, tx, s); err != nil {
			return err
		}
	}
	if gang.Broke {
		if err := d.halt(ctx, tx, s, false); err != nil {
			return err
		}
	}
	if err := d.Jobs.SaveAttempt(ctx, tx, s.attempt); err != nil {
		return err
	}
	if changed {
		return d.Jobs.Save(ctx, tx, s.job, s.before, cause)
	}
	if explained {
		return d.Jobs.SaveQueue(ctx, tx, s.job)
	}
	return nil
}

// explain records what a batch system states about the attempt, and reports whether the reason for which it holds the job
// has changed.
func (s *lockedJob) explain() bool {
	for _, w := range s.works {
		if w.Batch {
			s.attempt.SeeBatch(w.BatchID, w.BatchNodes)
			return s.job.Explain(w.BatchReason, w.BatchDetail)
		}
	}
	return false
}

// end ends an attempt whose nodes have delivered what they could, and releases what it holds. It reports whether the
// attempt has ended: if its end is that of the job, the run is closed first, and Commit then ends both.
func (d *Driver) end(ctx context.Context, tx pgx.Tx, s *lockedJob, exit gang.Exit, cause *job.Cause) (ended bool, err error) {
	if s.job.Protected {
		exit.Message = "" // it may quote what the processes printed
	}
	if err := d.clear(ctx, tx, s); err != nil {
		return false, err
	}
	out := job.Judge(s.job, s.attempt, exit)
	if out.State.Terminal() {
		s.attempt.Closing = &job.Closing{
			Exit: exit, Outcome: out, At: s.now, Until: job.CloseUntil(lastExit(s.works), s.now), Collected: collected(s.works),
			ActorKind: cause.ActorKind, ActorID: cause.ActorID,
		}
		return false, d.Jobs.Closer.CloseRun(ctx, tx, s.job.RunID)
	}
	s.job.End(s.attempt, exit, out, s.now)
	s.job.Collect(s.attempt, collected(s.works))
	cause.Type, cause.Reason, cause.Message = "", out.Reason, out.Message
	if d.Lines == nil {
		return true, nil
	}
	return true, d.Lines.EndAttempt(ctx, tx, s.job.RunID, s.attempt.Number)
}

// collected reports whether the nodes have delivered all output and reports of the works.
func collected(works []*assignment.Work) bool {
	return !slices.ContainsFunc(works, func(w *assignment.Work) bool { return w.Uncollected })
}

// lastExit returns when the last of the works ended by the clock of its node, or nil if that is not known.
func lastExit(works []*assignment.Work) (last *time.Time) {
	for _, w := range works {
		if w.ExitedAt != nil && (last == nil || w.ExitedAt.After(*last)) {
			last = w.ExitedAt
		}
	}
	return last
}

// clear releases the quota and the node resources of an ended attempt, and makes the nodes remove its works.
func (d *Driver) clear(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
	if err := d.release(ctx, tx, s); err != nil {
		return err
	}
	for _, w := range s.works {
		w.Desired, w.DesiredAt, w.ReleasedAt = assignment.WantGone, s.now, &s.now
		if err := d.Works.Save(ctx, tx, w, w.Key, w.NodeID, s.now); err != nil {
			return err
		}
	}
	return nil
}

// freeQuota releases the quota of an attempt whose processes have ended while its output is still being delivered. It
// wakes the scheduler. The nodes are free for other work at the same time (db.TakesRoom).
func (d *Driver) freeQuota(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
	if err := d.release(ctx, tx, s); err != nil {
		return err
	}
	return pg.Notify(ctx, tx, db.QueueTopic)
}

// release returns the GPUs of the attempt to the quota of the job's owner and team.
func (d *Driver) release(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
	held, err := d.Jobs.Release(ctx, tx, s.attempt.ID)
	if err != nil {
		return err
	}
	return d.Ledger.Release(ctx, tx, quota.Holder{UserID: s.job.OwnerID, TeamID: s.job.TeamID}, held)
}

// halt stops the works of an attempt that have not ended. With force they are killed at once.
func (d *Driver) halt(ctx context.Context, tx pgx.Tx, s *lockedJob, force bool) error {
	const want = assignment.WantStopped
	for _, w := range s.works {
		if w.Released() || w.Exit != nil || w.Desired == want && (w.Force || !force) {
			continue
		}
		w.Desired, w.DesiredAt, w.Force = want, s.now, w.Force || force
		if err := d.Works.Save(ctx, tx, w, w.Key, w.NodeID, s.now); err != nil {
			return fmt.Errorf("stop work %s: %w", w.ID, err)
		}
	}
	return nil
}

func seen(works []*assignment.Work) []gang.Observed {
	nodes := make([]gang.Observed, len(works))
	for i, w := range works {
		nodes[i] = gang.Observed{Phase: w.Phase, PreparingAt: w.PreparingAt, RunningAt: w.RunningAt, Exit: w.Exit}
	}
	return nodes
}
