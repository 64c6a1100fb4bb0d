package run

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
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
	if err != nil {
		return nil, err
	}
	return &jobspeerv1.RecordCheckpointResponse{}, nil
}

// NextSignal returns the signal that is pending for the run's training process.
func (s *PeerServer) NextSignal(ctx context.Context, req *jobspeerv1.NextSignalRequest) (*jobspeerv1.Signal, error) {
	next, err := s.Reporter.Next(ctx, req.GetRunId(), int(req.GetAttempt()))
	if err != nil {
		return nil, err
	}
	return signalToProto(next), nil
}

// AckSignal records that the training process has handled a signal, and returns the next one.
func (s *PeerServer) AckSignal(ctx context.Context, req *jobspeerv1.AckSignalRequest) (*jobspeerv1.Signal, error) {
	next, err := s.Reporter.Ack(ctx, req.GetRunId(), int(req.GetAttempt()), req.GetSignalId())
	if err != nil {
		return nil, err
	}
	return signalToProto(next), nil
}

func signalToProto(a job.PendingSignal) *jobspeerv1.Signal {
	return &jobspeerv1.Signal{Signal: a.Signal, Id: a.ID, Deadline: request.OptionalTime(a.Deadline)}
}

// lookAgain is how often a watch of signals checks again without a wake-up.
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
