package ingest

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// EndWaits ends every wait for a signal. The process calls it at shutdown, so that the clients repeat their requests,
// which then reach another replica.
func (s *Service) EndWaits() { s.signals.Close() }

// nextSignal fetches the current signal of an attempt from the jobs service.
func (s *Service) nextSignal(ctx context.Context, runID string, attempt int32) (run.Signal, error) {
	m, err := s.deps.Runs.NextSignal(ctx, &jobspeerv1.NextSignalRequest{RunId: runID, Attempt: attempt})
	if err != nil {
		return run.Signal{}, err
	}
	return signalOf(m), nil
}

// ack forwards the acknowledgement of a signal to the jobs service.
func (s *Service) ack(ctx context.Context, g *ingesttoken.Grant, signalID string) (run.Signal, error) {
	m, err := s.deps.Runs.AckSignal(ctx, &jobspeerv1.AckSignalRequest{RunId: g.Owner.RunID, Attempt: g.Attempt, SignalId: signalID})
	if err != nil {
		return run.Signal{}, err
	}
	return signalOf(m), nil
}

func signalOf(m *jobspeerv1.Signal) run.Signal {
	return run.Signal{Signal: m.GetSignal(), ID: m.GetId(), Deadline: request.TimeOf(m.GetDeadline())}
}

// checkpoint reports a registered checkpoint to the jobs service.
func (s *Service) checkpoint(ctx context.Context, g *ingesttoken.Grant, a *artifact.Artifact) error {
	_, err := s.deps.Runs.RecordCheckpoint(ctx, &jobspeerv1.RecordCheckpointRequest{
		RunId: a.RunID, Attempt: g.Attempt, ArtifactId: a.ID, Step: a.Step, Format: a.Format, Uri: a.URI(),
		SizeBytes: a.Size, Sha256: a.SHA256, Packed: a.Packed(), CreatedAt: timestamppb.New(a.CreatedAt),
	})
	return err
}

// watchSignals receives the signals of all runs from the jobs service. If it loses the stream, it opens the stream
// again; until then, waiting requests poll.
func (s *Service) watchSignals(ctx context.Context) error {
	backoff := process.Backoff{Min: listenLeast, Max: listenMost, Jitter: 0.5}
	for try := 0; ; try++ {
		began := s.deps.Clock.Now()
		err := s.receiveSignals(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.deps.Log.WarnContext(ctx, "signal stream from jobs is down; waiting requests poll until it is back", "error", err)
		if clock.Since(s.deps.Clock, began) > listenMost {
			try = 0
		}
		if err := backoff.Wait(ctx, s.deps.Clock, try); err != nil {
			return err
		}
	}
}

func (s *Service) receiveSignals(ctx context.Context) error {
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
