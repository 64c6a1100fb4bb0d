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

// Outside changes runs without a job: by their reports, and when they are silent for too long. Such a run ends in two
// steps: its end is decided, and when its streams are closed, Commit ends it.
type Outside struct {
	Pool   *pgxpool.Pool
	Events *event.Log
	Closer RunCloser
	// Finish closes the streams of a run and ends the run as decided. If it fails, the queue does it later. It may be nil.
	Finish func(ctx context.Context, runID string) error
	store  outsideStore
}

// Report applies a lifecycle event of a run without a job. For every other run it returns a 404 error. If the event ends
// the run, the run has usually ended when Report returns.
func (o *Outside) Report(ctx context.Context, runID, name, message string) (applied bool, err error) {
	decided := false
	err = pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		r, err := o.store.lock(ctx, tx, runID)
		if err != nil {
			return err
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		if applied, err = r.report(name, message, now); err != nil || !applied {
			return err
		}
		if decided = r.Closing != nil; decided {
			return o.decide(ctx, tx, r)
		}
		return o.save(ctx, tx, r, event.Event{
			Type: "run.reported", ActorKind: "run", ActorID: runID, Reason: "reported_" + name, Message: message,
		})
	})
	if err == nil && decided && o.Finish != nil {
		o.finish(ctx, runID)
	}
	return applied, err
}

// finishTime limits how long a report waits for the end of its run.
const finishTime = 5 * time.Second

func (o *Outside) finish(ctx context.Context, runID string) {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	_ = o.Finish(ctx, runID)
}

// decide stores the decided end of a run and queues the closing of its streams.
func (o *Outside) decide(ctx context.Context, tx pgx.Tx, r *outside) error {
	if err := o.store.save(ctx, tx, r); err != nil {
		return err
	}
	return o.Closer.CloseRun(ctx, tx, r.ID)
}

// save stores a changed run with its event.
func (o *Outside) save(ctx context.Context, tx pgx.Tx, r *outside, e event.Event) error {
	if err := o.store.save(ctx, tx, r); err != nil {
		return err
	}
	e.SubjectKind, e.SubjectID, e.From, e.To = run.SubjectKind, r.ID, string(job.Running), r.State
	_, err := o.Events.Append(ctx, tx, e)
	return err
}

// Decided returns the decided end of a run without a job. It returns nil if the run has a job, if its end is not decided,
// and if it has ended.
func (o *Outside) Decided(ctx context.Context, runID string) (*job.Closing, error) {
	return o.store.closing(ctx, o.Pool, runID)
}

// Commit ends a run without a job as decided. If no end is decided or the run has ended, Commit changes nothing.
func (o *Outside) Commit(ctx context.Context, runID string, _ bool) error {
	err := pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		r, err := o.store.lock(ctx, tx, runID)
		if err != nil || r.Closing == nil || r.EndedAt != nil {
			return err
		}
		reason := r.conclude()
		return o.save(ctx, tx, r, event.Event{
			Type: "run." + r.State, ActorKind: r.Closing.ActorKind, ActorID: r.Closing.ActorID, Reason: reason, Message: r.Closing.Outcome.Message,
		})
	})
	if fault.Is(err, fault.Absent) {
		return nil
	}
	return err
}

// EndSilent decides the end of the runs that were not heard for longer than their silence. The time before since does not count.
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
			return o.decide(ctx, tx, r)
		})
		if err != nil && !fault.Is(err, fault.Absent) {
			return err
		}
	}
	return nil
}
