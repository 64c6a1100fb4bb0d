package job

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/topic"
)

const (
	// lookAgain is how long a watch trusts wake-ups alone.
	lookAgain = 5 * time.Second
	// watchBatch is how many changes are read at once.
	watchBatch = 100
)

// WatchJob sends the job as it was after each of its changes, from the one that follows `after`, and
// ends after the change that ended the job. Everything comes from the rows: a watch that is resumed
// anywhere sees the same changes under the same numbers.
func (s *Server) WatchJob(req *jobsv1.WatchJobRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse]) error {
	ctx := stream.Context()
	j, err := s.find(ctx, req.GetId())
	if err != nil {
		return err
	}
	changed := s.Hub.Wait(topic.Job(j.ID))
	defer changed.Close()
	again := s.Clock.NewTicker(lookAgain)
	defer again.Stop()
	for seq := max(0, req.GetAfter()); ; {
		var ended bool
		if seq, ended, err = s.sendChanges(ctx, stream, j, seq); err != nil || ended {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed.C:
		case <-again.C():
		}
	}
}

// find answers the job of a job's or a run's id.
func (s *Server) find(ctx context.Context, name string) (*Job, error) {
	if !strings.HasPrefix(name, string(id.Run)+"_") {
		if err := request.ID(id.Job, "id", name); err != nil {
			return nil, err
		}
		return s.get(ctx, name)
	}
	if err := request.ID(id.Run, "id", name); err != nil {
		return nil, err
	}
	return s.Jobs.OfRun(ctx, s.Pool, authn.Of(ctx).Scope(), name)
}

func (s *Server) sendChanges(
	ctx context.Context, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse], j *Job, seq int64,
) (int64, bool, error) {
	for {
		statuses, err := s.Jobs.Statuses(ctx, s.Pool, j.ID, seq, watchBatch)
		if err != nil {
			return seq, false, err
		}
		for _, status := range statuses {
			seq++
			then := *j
			then.Status = status
			if err := stream.Send(&jobsv1.WatchJobResponse{Seq: seq, Job: ToProto(&then)}); err != nil {
				return seq, false, err
			}
			if status.State.Terminal() {
				return seq, true, nil
			}
		}
		if len(statuses) < watchBatch {
			return s.ended(ctx, j.ID, seq)
		}
	}
}

// ended says whether a watch that starts behind the last change has nothing to wait for.
func (s *Server) ended(ctx context.Context, jobID string, seq int64) (int64, bool, error) {
	j, err := s.Jobs.Get(ctx, s.Pool, authn.Scope{Admin: true, Projects: []string{}}, jobID)
	if err != nil {
		return seq, false, err
	}
	return seq, j.State.Terminal() && seq >= j.Seq, nil
}
