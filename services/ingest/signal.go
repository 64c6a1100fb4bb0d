package ingest

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/grant"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/signal"
)

// EndWaits ends every wait for a signal: the process stops, and whoever waits asks elsewhere.
func (s *Service) EndWaits() { s.signals.Close() }

// nextSignal asks jobs what an attempt is asked now.
func (s *Service) nextSignal(ctx context.Context, runID string, attempt int32) (signal.Signal, error) {
	m, err := s.deps.Runs.NextSignal(ctx, &jobspeerv1.NextSignalRequest{RunId: runID, Attempt: attempt})
	if err != nil {
		return signal.Signal{}, err
	}
	return signalOf(m), nil
}

// ack hands the acknowledgement of a signal to jobs.
func (s *Service) ack(ctx context.Context, g *grant.Grant, signalID string) (signal.Signal, error) {
	m, err := s.deps.Runs.AckSignal(ctx, &jobspeerv1.AckSignalRequest{RunId: g.Owner.RunID, Attempt: g.Attempt, SignalId: signalID})
	if err != nil {
		return signal.Signal{}, err
	}
	return signalOf(m), nil
}

func signalOf(m *jobspeerv1.Signal) signal.Signal {
	s := signal.Signal{Signal: m.GetSignal(), ID: m.GetId()}
	if m.GetDeadline() != nil {
		at := m.GetDeadline().AsTime()
		s.Deadline = &at
	}
	return s
}

// checkpoint tells jobs of a registered checkpoint.
func (s *Service) checkpoint(ctx context.Context, g *grant.Grant, a *artifact.Artifact) error {
	_, err := s.deps.Runs.RecordCheckpoint(ctx, &jobspeerv1.RecordCheckpointRequest{
		RunId: a.RunID, Attempt: g.Attempt, ArtifactId: a.ID, Step: a.Step, Format: a.Format, Uri: a.URI(),
		SizeBytes: a.Size, Sha256: a.SHA256, Packed: a.Packed(), CreatedAt: timestamppb.New(a.CreatedAt),
	})
	return err
}

// watchSignals hears what runs are asked, and again after the stream is lost; meanwhile who waits looks by
// himself from time to time.
func (s *Service) watchSignals(ctx context.Context) error {
	backoff := run.Backoff{Min: listenLeast, Max: listenMost, Jitter: 0.5}
	for try := 0; ; try++ {
		began := s.deps.Clock.Now()
		err := s.hearSignals(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.deps.Log.WarnContext(ctx, "signals of runs are not heard at once", "error", err)
		if clock.Since(s.deps.Clock, began) > listenMost {
			try = 0
		}
		if err := backoff.Wait(ctx, s.deps.Clock, try); err != nil {
			return err
		}
	}
}

func (s *Service) hearSignals(ctx context.Context) error {
	stream, err := s.deps.Runs.WatchSignals(ctx, &jobspeerv1.WatchSignalsRequest{})
	if err != nil {
		return fmt.Errorf("watch the signals of runs: %w", err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("watch the signals of runs: %w", err)
		}
		s.signals.Set(m.GetSignals())
	}
}
