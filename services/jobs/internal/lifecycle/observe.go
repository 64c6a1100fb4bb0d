package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Observe applies a full report of a node. Each changed work is saved with its job in one transaction. An
// unchanged work causes no write.
func (d *Driver) Observe(ctx context.Context, nodeID string, report []assignment.Observed) error {
	works, err := d.Works.OnNode(ctx, d.Pool, nodeID)
	if err != nil {
		return err
	}
	now, err := pg.Now(ctx, d.Pool)
	if err != nil {
		return err
	}
	byID := make(map[string]assignment.Observed, len(report))
	for _, s := range report {
		// Keep the newest execution: the node may also report an older one that it is still ending.
		if known, ok := byID[s.ID]; !ok || known.Fence < s.Fence || known.Fence == s.Fence && known.Generation < s.Generation {
			byID[s.ID] = s
		}
	}
	var errs []error
	for _, w := range works {
		update := missed(now)
		if s, ok := byID[w.ID]; ok {
			update = func(w *assignment.Work) bool { return w.Apply(s) || w.Supersede(s) }
		}
		probe := *w
		if !update(&probe) {
			continue
		}
		errs = append(errs, d.apply(ctx, w, nodeID, update))
	}
	return errors.Join(errs...)
}

func missed(now time.Time) func(w *assignment.Work) bool {
	return func(w *assignment.Work) bool { return w.Miss(now) }
}

// apply runs an update again on the locked row, which may have changed since it was read.
func (d *Driver) apply(ctx context.Context, w *assignment.Work, nodeID string, update func(w *assignment.Work) bool) error {
	var err error
	if w.Kind == assignment.Engine {
		err = d.applyEngine(ctx, w.ID, nodeID, update)
	} else {
		err = d.applyAttempt(ctx, w, nodeID, update)
	}
	if fault.Is(err, fault.Absent) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply the report on work %s: %w", w.ID, err)
	}
	return nil
}

func (d *Driver) applyAttempt(ctx context.Context, w *assignment.Work, nodeID string, update func(w *assignment.Work) bool) error {
	return d.step(ctx, w.JobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		for _, mine := range s.works {
			before := mine.Detail
			if mine.ID != w.ID || mine.NodeID != nodeID || !update(mine) {
				continue
			}
			if err := d.Works.Save(ctx, tx, mine, mine.Key, mine.NodeID, s.now); err != nil {
				return err
			}
			if err := d.recordFreeze(ctx, tx, s, before, mine); err != nil {
				return err
			}
			return d.advance(ctx, tx, s, job.Cause{ActorKind: "agent", ActorID: nodeID})
		}
		return nil
	})
}

// recordFreeze appends an event to the job if its work was frozen because the disk of the node is full, or if the work
// continues.
func (d *Driver) recordFreeze(ctx context.Context, tx pgx.Tx, s *lockedJob, before string, w *assignment.Work) error {
	cause := job.Cause{ActorKind: "agent", ActorID: w.NodeID, Type: "job.thawed", Reason: "disk_full"}
	if w.Detail == assignment.DetailFrozen {
		cause.Type, cause.Message = "job.frozen", w.Detail
	}
	if s.attempt.Over() || (before == assignment.DetailFrozen) == (w.Detail == assignment.DetailFrozen) {
		return nil
	}
	return d.Jobs.Save(ctx, tx, s.job, s.before, cause)
}

func (d *Driver) applyEngine(ctx context.Context, id, nodeID string, update func(w *assignment.Work) bool) error {
	return pg.InTx(ctx, d.Pool, func(ctx context.Context, tx pgx.Tx) error {
		w, err := d.Works.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		before := w.Key
		if w.NodeID != nodeID || !update(w) {
			return nil
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		w.Settle(now)
		return d.Works.Save(ctx, tx, w, before, nodeID, now)
	})
}
