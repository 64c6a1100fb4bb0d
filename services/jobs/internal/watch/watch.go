// Package watch follows a job: it sends the job as it was after each of its changes.
//
// It promises that a watch which is resumed anywhere sees the same changes under the same numbers, each
// once and in order, up to the one that ended the job; a wake-up that is lost costs a delay and no change;
// a place behind the last change is refused; a job that the watcher no longer sees, because it was given away
// or its project hidden, is as absent as at the opening: before a later change is told, and at the latest
// lookAgain after.
package watch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/wake"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/desk"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/topic"
)

const (
	// lookAgain is how long a watch trusts wake-ups alone.
	lookAgain = 5 * time.Second
	// watchBatch is how many changes are read at once.
	watchBatch = 100
)

// Watcher answers the watches of jobs.
type Watcher struct {
	Pool  *pgxpool.Pool
	Jobs  *job.Store
	Hub   *wake.Hub
	Clock clock.Clock
}

// Watch sends the job as it was after each of its changes, from the one that follows `after`, and
// ends after the change that ended the job. Everything comes from the rows: a watch that is resumed
// anywhere sees the same changes under the same numbers.
func (w *Watcher) Watch(req *jobsv1.WatchJobRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse]) error {
	ctx := stream.Context()
	j, err := w.find(ctx, req.GetId())
	if err != nil {
		return err
	}
	if err := within(req.GetAfter(), j.Seq); err != nil {
		return err
	}
	// The header tells that the caller may read, before there is anything to read.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	changed := w.Hub.Wait(topic.Job(j.ID))
	defer changed.Close()
	again := w.Clock.NewTicker(lookAgain)
	defer again.Stop()
	for seq := max(0, req.GetAfter()); ; {
		sent, ended, err := w.sendChanges(ctx, stream, j, seq)
		if seq += sent; err != nil || ended || j.State.Terminal() && seq >= j.Seq {
			return err
		}
		if sent < watchBatch {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed.C:
			case <-again.C():
			}
		}
		// Who is told what comes next may still read it; and what has ended by now has all its changes.
		if j, err = w.find(ctx, req.GetId()); err != nil {
			return err
		}
	}
}

// within refuses a place that the job has not come to: it is one of another stream, and to wait there
// would be to miss every change up to it.
func within(after, last int64) error {
	if after <= last {
		return nil
	}
	field := fault.At(fault.TypeLessThanEqual, fmt.Sprintf("Input should be less than or equal to %d, the stream's last id", last), "after")
	field.Ctx = map[string]any{"le": last}
	return fault.InvalidFields(field)
}

// find answers the job of a job's or a run's id.
func (w *Watcher) find(ctx context.Context, name string) (*job.Job, error) {
	if !strings.HasPrefix(name, string(id.Run)+"_") {
		if err := request.ID(id.Job, "id", name); err != nil {
			return nil, err
		}
		return w.Jobs.Get(ctx, w.Pool, authn.ScopeOf(ctx), name)
	}
	if err := request.ID(id.Run, "id", name); err != nil {
		return nil, err
	}
	return w.Jobs.OfRun(ctx, w.Pool, authn.ScopeOf(ctx), name)
}

// sendChanges sends the next changes after a number, watchBatch at most. It answers how many, and whether the
// last one ended the job.
func (w *Watcher) sendChanges(
	ctx context.Context, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse], j *job.Job, seq int64,
) (sent int64, ended bool, err error) {
	statuses, err := w.Jobs.Statuses(ctx, w.Pool, j.ID, seq, watchBatch)
	if err != nil {
		return 0, false, err
	}
	for _, status := range statuses {
		sent++
		then := *j
		then.Status, then.Seq = status, seq+sent
		if err := stream.Send(&jobsv1.WatchJobResponse{Seq: seq + sent, Job: desk.ToProto(&then)}); err != nil {
			return sent, false, err
		}
		if status.State.Terminal() {
			return sent, true, nil
		}
	}
	return sent, false, nil
}
