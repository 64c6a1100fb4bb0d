package ingest

import (
	"context"
	"fmt"
	"time"

	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

const (
	// keepWithin limits the time that a registration spends on the removal of older checkpoints.
	keepWithin = 5 * time.Second
	// freeEvery is the pause between two searches for removed checkpoints whose objects can be deleted.
	freeEvery = time.Minute
	// inUseWithin limits a request to the jobs service for the artifacts that must stay.
	inUseWithin = 20 * time.Second
)

// keep removes the checkpoints of a run that it does not keep any more. It never fails a registration: the next one repeats it.
func (s *Service) keep(ctx context.Context, g *ingesttoken.Grant) {
	if g.Keeping == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	removed, err := s.keeper.Apply(ctx, g.Owner.RunID, *g.Keeping)
	if err != nil {
		s.deps.Log.ErrorContext(ctx, "cannot remove old checkpoints; the next checkpoint of the run repeats it", "run", g.Owner.RunID, "error", err)
		return
	}
	if removed.Count > 0 {
		s.deps.Log.InfoContext(ctx, "removed old checkpoints", "run", g.Owner.RunID, "artifacts", removed.Count, "bytes", removed.Bytes)
	}
}

// metricValue returns a function that reads the values of checkpoints.
func metricValue(points *metric.Store) artifact.MetricValue {
	return func(ctx context.Context, runID, key string, from, to int64) (float64, bool, error) {
		w := metric.Window{Axis: metric.Steps, From: from, To: to}
		charts, _, err := points.Charts(ctx, runID, []string{key}, w, 0, request.Page{Limit: 1})
		if err != nil || len(charts) == 0 || charts[0].Count == 0 {
			return 0, false, err
		}
		value := charts[0].Last.Value
		return value, value-value == 0, nil // not NaN or infinite
	}
}

// freeCheckpoints deletes the objects of removed checkpoints.
func (s *Service) freeCheckpoints(ctx context.Context) error {
	f := &artifact.Freer{Pool: s.deps.Pool, InUse: s.artifactsInUse, Remove: s.sweeper.Remove, Freed: func(ctx context.Context, bytes int64) {
		if bytes > 0 {
			s.freed(ctx, bytes)
			s.deps.Log.InfoContext(ctx, "deleted the files of removed checkpoints", "bytes", bytes)
		}
	}}
	return process.Loop(ctx, s.deps.Clock, freeEvery, freeEvery/4, process.Logged(s.deps.Log, "ingest.checkpoints", f.Free))
}

// artifactsInUse requests from the jobs service which artifacts must stay. Jobs includes what the registry knows.
func (s *Service) artifactsInUse(ctx context.Context, all []*artifact.Artifact) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, inUseWithin)
	defer cancel()
	in := &jobspeerv1.FindArtifactsInUseRequest{}
	for _, a := range all {
		in.Artifacts = append(in.Artifacts, &jobspeerv1.RunArtifact{RunId: a.RunID, ArtifactId: a.ID})
	}
	out, err := s.deps.Runs.FindArtifactsInUse(ctx, in)
	return out.GetArtifactIds(), err
}

// newFreed registers the counter of freed bytes and returns the function that adds to it; meters may be nil.
func newFreed(meters otelmetric.MeterProvider) (func(ctx context.Context, bytes int64), error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "ingest_checkpoint_freed_bytes_total"
	counter, err := meters.Meter("ingest").Int64Counter(name,
		otelmetric.WithDescription("bytes of checkpoints that were deleted because their jobs keep only newer or better ones"))
	if err != nil {
		return nil, fmt.Errorf("create the counter %s: %w", name, err)
	}
	return func(ctx context.Context, bytes int64) { counter.Add(ctx, bytes) }, nil
}
