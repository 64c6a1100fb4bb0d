package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Lose declares the works of a fenced node lost, except for those whose lease was renewed at the given time or later.
// For an attempt, job.Judge decides what this means; an engine is unplaced. A node that comes back must remove those
// works. An attempt that no node ever acknowledged has not started, so its placement is withdrawn and the job is queued
// again without counting the attempt. An attempt that a batch system holds keeps its place in the queue there: it needs no
// agent to start, and it renews its lease before it does.
func (d *Driver) Lose(ctx context.Context, nodeID string, renewed time.Time) error {
	return d.giveUp(ctx, nodeID, nodeSilent, func(w *assignment.Work) bool { return w.RenewedSince(renewed) || w.KeepsPlace() })
}

// Abandon declares all works of a removed node lost. It also withdraws the attempts that a batch system holds: they find
// their leases refused before they start.
func (d *Driver) Abandon(ctx context.Context, nodeID string) error {
	return d.giveUp(ctx, nodeID, nodeRemoved, func(*assignment.Work) bool { return false })
}

// giveUp declares the works of the node lost for the given reason, except for those that the function keeps.
func (d *Driver) giveUp(ctx context.Context, nodeID, reason string, keeps func(w *assignment.Work) bool) error {
	works, err := d.Works.OnNode(ctx, d.Pool, nodeID)
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range works {
		if keeps(w) {
			continue
		}
		if unstarted(w) {
			withdrawn, err := d.withdraw(ctx, w)
			errs = append(errs, err)
			if withdrawn {
				continue
			}
		}
		errs = append(errs, d.apply(ctx, w, nodeID, func(w *assignment.Work) bool { return !keeps(w) && lose(reason)(w) }))
	}
	return errors.Join(errs...)
}

// unstarted reports whether no process of an attempt has been started, as far as is known.
func unstarted(w *assignment.Work) bool {
	return w.Kind == assignment.Attempt && (w.Phase == gang.PhaseNone || w.Held())
}

// The reasons why a work is lost.
const (
	nodeSilent  = "the node stopped responding"
	nodeRemoved = "the node was removed"
)

func lose(message string) func(w *assignment.Work) bool {
	return func(w *assignment.Work) bool {
		if w.Released() {
			return false
		}
		w.Phase = gang.PhaseGone
		if w.Exit == nil {
			w.Exit = &gang.Exit{Code: -1, Reason: gang.ExitLost, Message: message}
			w.Uncollected = w.Kind == assignment.Attempt
		}
		return true
	}
}

// withdraw undoes a placement that no node has acknowledged or that a batch system holds, and reports whether it did.
func (d *Driver) withdraw(ctx context.Context, w *assignment.Work) (done bool, err error) {
	err = d.step(ctx, w.JobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		if s.job.State != job.Scheduled || s.attempt.Number != w.Number {
			return nil
		}
		for _, mine := range s.works {
			if !unstarted(mine) || mine.RenewedAt != nil { // The node has started it, but has not reported that yet.
				return nil
			}
		}
		if err := d.release(ctx, tx, s); err != nil {
			return err
		}
		if err := d.Works.Delete(ctx, tx, s.works); err != nil {
			return err
		}
		if err := d.Jobs.DeleteAttempt(ctx, tx, s.attempt); err != nil {
			return err
		}
		s.job.Withdraw(s.now)
		done = true
		return d.Jobs.Save(ctx, tx, s.job, s.before, job.Cause{Reason: job.ReasonExecutorLost})
	})
	return done && err == nil, err
}
