package lifecycle

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
)

// Evict moves all work off a healthy node. It removes engines from the node, withdraws placements that no node has
// acknowledged or that a batch system holds, and stops all other attempts. The exits that the node then reports decide
// about the jobs of those attempts. A repeated call changes nothing.
func (d *Driver) Evict(ctx context.Context, nodeID string) error {
	works, err := d.Works.OnNode(ctx, d.Pool, nodeID)
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range works {
		errs = append(errs, d.evict(ctx, w, nodeID))
	}
	return errors.Join(errs...)
}

// EvictIdle removes from the node only the work that has no state to save: engines, and placements that no node has
// acknowledged or that a batch system holds.
func (d *Driver) EvictIdle(ctx context.Context, nodeID string) error {
	works, err := d.Works.OnNode(ctx, d.Pool, nodeID)
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range works {
		switch {
		case w.Kind == assignment.Engine:
			errs = append(errs, d.apply(ctx, w, nodeID, lose(nodeSilent)))
		case unstarted(w):
			_, err := d.withdraw(ctx, w)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d *Driver) evict(ctx context.Context, w *assignment.Work, nodeID string) error {
	if w.Kind == assignment.Engine {
		return d.apply(ctx, w, nodeID, lose(nodeSilent))
	}
	if unstarted(w) {
		if withdrawn, err := d.withdraw(ctx, w); withdrawn || err != nil {
			return err
		}
	}
	return d.step(ctx, w.JobID, func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		for _, mine := range s.works {
			if mine.ID != w.ID || mine.NodeID != nodeID || mine.Released() || mine.Exit != nil || mine.Desired != assignment.WantRunning {
				continue
			}
			mine.Desired, mine.DesiredAt = assignment.WantStopped, s.now
			return d.Works.Save(ctx, tx, mine, mine.Key, mine.NodeID, s.now)
		}
		return nil
	})
}
