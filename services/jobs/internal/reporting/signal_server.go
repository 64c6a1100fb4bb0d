package reporting

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// RecordCheckpoint records a registered checkpoint that the run's next attempt can resume from.
func (s *PeerServer) RecordCheckpoint(
	ctx context.Context, req *jobspeerv1.RecordCheckpointRequest,
) (*jobspeerv1.RecordCheckpointResponse, error) {
	err := s.Reporter.Register(ctx, req.GetRunId(), job.Checkpoint{
		ArtifactID: req.GetArtifactId(), Attempt: int(req.GetAttempt()), Step: req.Step, Format: req.GetFormat(), URI: req.GetUri(),
		Size: req.GetSizeBytes(), SHA256: req.GetSha256(), Packed: req.GetPacked(), CreatedAt: req.GetCreatedAt().AsTime(),
	})
	if err := s.unlessOutside(ctx, req.GetRunId(), err); err != nil {
		return nil, err
	}
	return &jobspeerv1.RecordCheckpointResponse{}, nil
}

// NextSignal returns the signal that is pending for the run's training process.
func (s *PeerServer) NextSignal(ctx context.Context, req *jobspeerv1.NextSignalRequest) (*jobspeerv1.Signal, error) {
	next, err := s.Reporter.Next(ctx, req.GetRunId(), int(req.GetAttempt()))
	if err == nil {
		return signalToProto(next), nil
	}
	return signalToProto(job.PendingSignal{Signal: job.SignalNone}), s.unlessOutside(ctx, req.GetRunId(), err)
}

// AckSignal records that the training process has handled a signal, and returns the next one.
func (s *PeerServer) AckSignal(ctx context.Context, req *jobspeerv1.AckSignalRequest) (*jobspeerv1.Signal, error) {
	next, err := s.Reporter.Ack(ctx, req.GetRunId(), int(req.GetAttempt()), req.GetSignalId())
	if err != nil {
		return nil, err
	}
	return signalToProto(next), nil
}

// unlessOutside returns the error of a call of Reporter, or nil if the call failed because the run has no job. Such a run
// gets no signals, and no attempt resumes from its checkpoints.
func (s *PeerServer) unlessOutside(ctx context.Context, runID string, err error) error {
	if !fault.Is(err, fault.Absent) {
		return err
	}
	r, found := s.Runs.Get(ctx, s.Pool, access.ServiceScope(), runID)
	if found == nil && r.SilenceS != nil {
		return nil
	}
	return err
}

func signalToProto(a job.PendingSignal) *jobspeerv1.Signal {
	return &jobspeerv1.Signal{Signal: a.Signal, Id: a.ID, Deadline: request.OptionalTime(a.Deadline)}
}

// lookAgain is the interval at which a watch of signals polls, in case a wake-up was lost.
const lookAgain = 5 * time.Second

// WatchSignals sends the complete set of runs with a pending signal, at once and after every change.
func (s *PeerServer) WatchSignals(
	_ *jobspeerv1.WatchSignalsRequest, stream grpc.ServerStreamingServer[jobspeerv1.WatchSignalsResponse],
) error {
	ctx := stream.Context()
	changed := s.Hub.Wait(db.SignalsTopic)
	defer changed.Close()
	again := s.Clock.NewTicker(lookAgain)
	defer again.Stop()
	var sent map[string]string
	for {
		signals, err := s.Jobs.Signalled(ctx, s.Pool)
		if err != nil {
			return err
		}
		if sent == nil || !maps.Equal(sent, signals) {
			if err := stream.Send(&jobspeerv1.WatchSignalsResponse{Signals: signals}); err != nil {
				return fmt.Errorf("send pending signals: %w", err)
			}
			sent = signals
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed.C:
		case <-again.C():
		}
	}
}
