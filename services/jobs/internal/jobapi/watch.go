package jobapi

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

const (
	// lookAgain is the interval at which a watch polls, in case a wake-up was lost.
	lookAgain = 5 * time.Second
	// watchBatch is how many changes one query reads.
	watchBatch = 100
)

// WatchJob sends, for each change, the job as it was then. It begins after the change whose number the request
// contains, and returns after the change that ended the job.
//
// A lost wake-up delays a change but does not skip it. A start position past the last change is refused. If the
// caller loses access to the job, because the job got another owner or its project was hidden, the watch ends with an
// error of kind fault.Absent before it sends a later change, and at most lookAgain after the loss.
func (s *Server) WatchJob(req *jobsv1.WatchJobRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse]) error {
	ctx := stream.Context()
	j, err := s.find(ctx, req.GetId())
	if err != nil {
		return err
	}
	if err := request.StreamPosition(req.GetAfter(), j.Seq); err != nil {
		return err
	}
	// The header shows the client at once that it has access, even if there is no change to send yet.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	changed := s.Hub.Wait(db.JobTopic(j.ID))
	defer changed.Close()
	again := s.Clock.NewTicker(lookAgain)
	defer again.Stop()
	for seq := max(0, req.GetAfter()); ; {
		sent, ended, err := s.sendChanges(ctx, stream, j, seq)
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
		// Reload the job: access may be lost, and if the job has ended by now, j.Seq is its last change.
		if j, err = s.find(ctx, req.GetId()); err != nil {
			return err
		}
	}
}

// find returns the job with the given job ID or run ID.
func (s *Server) find(ctx context.Context, name string) (*job.Job, error) {
	if !strings.HasPrefix(name, string(id.Run)+"_") {
		if err := request.ID(id.Job, "id", name); err != nil {
			return nil, err
		}
		return s.Jobs.Get(ctx, s.Pool, authn.ScopeOf(ctx), name)
	}
	if err := request.ID(id.Run, "id", name); err != nil {
		return nil, err
	}
	return s.Jobs.OfRun(ctx, s.Pool, authn.ScopeOf(ctx), name)
}

// sendChanges sends the changes after the sequence number seq, at most watchBatch of them. It returns how many changes
// it sent, and whether the last change ended the job.
func (s *Server) sendChanges(
	ctx context.Context, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse], j *job.Job, seq int64,
) (sent int64, ended bool, err error) {
	statuses, err := s.Jobs.Statuses(ctx, s.Pool, j.ID, seq, watchBatch)
	if err != nil {
		return 0, false, err
	}
	for _, status := range statuses {
		sent++
		then := *j
		then.Status, then.Seq = status, seq+sent
		m, err := shown(ctx, &then)
		if err != nil {
			return sent, false, err
		}
		if err := stream.Send(&jobsv1.WatchJobResponse{Seq: seq + sent, Job: m}); err != nil {
			return sent, false, err
		}
		if status.State.Terminal() {
			return sent, true, nil
		}
	}
	return sent, false, nil
}
