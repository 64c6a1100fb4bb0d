package reporting

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// maxQuiet is the maximum number of runs that one query of EndSilent returns.
const maxQuiet = 100

// RunCloser queues the closing of a run's streams in ingest.
type RunCloser interface {
	CloseRun(ctx context.Context, tx pgx.Tx, runID string) error
}

// Outside changes runs without a job: by their reports, and when they are silent for too long.
type Outside struct {
	Pool   *pgxpool.Pool
	Events *event.Log
	Closer RunCloser
	store  outsideStore
}

// Report applies a lifecycle event of a run without a job. For every other run it returns a 404 error.
func (o *Outside) Report(ctx context.Context, runID, name, message string) (applied bool, err error) {
	err = pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		r, err := o.store.lock(ctx, tx, runID)
		if err != nil {
			return err
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		if applied, err = r.report(name, now); err != nil || !applied {
			return err
		}
		return o.save(ctx, tx, r, event.Event{ActorKind: "run", ActorID: runID, Reason: "reported_" + name, Message: message})
	})
	return applied, err
}

// save stores a changed run with its event. If the run has ended, it queues the closing of its streams.
func (o *Outside) save(ctx context.Context, tx pgx.Tx, r *outside, e event.Event) error {
	if err := o.store.save(ctx, tx, r); err != nil {
		return err
	}
	e.SubjectKind, e.SubjectID, e.Type, e.From, e.To = run.SubjectKind, r.ID, "run.reported", string(job.Running), r.State
	if r.EndedAt != nil {
		e.Type = "run." + r.State
		if err := o.Closer.CloseRun(ctx, tx, r.ID); err != nil {
			return err
		}
	}
	_, err := o.Events.Append(ctx, tx, e)
	return err
}

// EndSilent ends the runs that were not heard for longer than their silence. The time before since does not count.
func (o *Outside) EndSilent(ctx context.Context, since time.Time) error {
	now, err := pg.Now(ctx, o.Pool)
	if err != nil {
		return err
	}
	found, err := o.store.quiet(ctx, o.Pool, now, since, maxQuiet)
	if err != nil {
		return err
	}
	for _, id := range found {
		err := pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
			r, err := o.store.lock(ctx, tx, id)
			if err != nil || !r.silent(now, since) {
				return err
			}
			r.fall(now)
			return o.save(ctx, tx, r, event.Event{Reason: r.EndReason, Message: "the run has reported nothing for too long"})
		})
		if err != nil && !fault.Is(err, fault.Absent) {
			return err
		}
	}
	return nil
}
