package run

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/topic"
)

// RecordCheckpoint tells of a registered checkpoint from which the run's next attempt can go on.
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

// NextSignal answers what the run's training is asked to do now.
func (s *PeerServer) NextSignal(ctx context.Context, req *jobspeerv1.NextSignalRequest) (*jobspeerv1.Signal, error) {
	asked, err := s.Reporter.Next(ctx, req.GetRunId(), int(req.GetAttempt()))
	if err != nil {
		return nil, err
	}
	return signalToProto(asked), nil
}

// AckSignal takes the training's word that it has done what a signal asked.
func (s *PeerServer) AckSignal(ctx context.Context, req *jobspeerv1.AckSignalRequest) (*jobspeerv1.Signal, error) {
	next, err := s.Reporter.Ack(ctx, req.GetRunId(), int(req.GetAttempt()), req.GetSignalId())
	if err != nil {
		return nil, err
	}
	return signalToProto(next), nil
}

func signalToProto(a job.Asked) *jobspeerv1.Signal {
	return &jobspeerv1.Signal{Signal: a.Signal, Id: a.ID, Deadline: timeTo(a.Deadline)}
}

// lookAgain is how long a watch of signals trusts wake-ups alone.
const lookAgain = 5 * time.Second

// WatchSignals sends all runs that are asked for something, whole, now and whenever that changes.
func (s *PeerServer) WatchSignals(
	_ *jobspeerv1.WatchSignalsRequest, stream grpc.ServerStreamingServer[jobspeerv1.WatchSignalsResponse],
) error {
	ctx := stream.Context()
	changed := s.Hub.Wait(topic.Signals)
	defer changed.Close()
	again := s.Clock.NewTicker(lookAgain)
	defer again.Stop()
	var told map[string]string
	for {
		asked, err := s.Jobs.Signalled(ctx, s.Pool)
		if err != nil {
			return err
		}
		if told == nil || !maps.Equal(told, asked) {
			if err := stream.Send(&jobspeerv1.WatchSignalsResponse{Signals: asked}); err != nil {
				return fmt.Errorf("tell what runs are asked: %w", err)
			}
			told = asked
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed.C:
		case <-again.C():
		}
	}
}
