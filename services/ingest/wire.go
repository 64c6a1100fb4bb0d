package ingest

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/follow"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/httpapi"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/read"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	ingestrun "github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/transfer"
)

// wire creates the servers and stores and connects them.
func (s *Service) wire() error {
	d := s.deps
	withheld, err := newWithheld(d.Meter)
	if err != nil {
		return err
	}
	if s.compactor, err = metric.NewCompactor(d.Pool, d.Clock, d.Log, d.Meter); err != nil {
		return err
	}
	if s.freed, err = newFreed(d.Meter); err != nil {
		return err
	}
	runs := &ingestrun.Runs{Rows: s.rows, FetchOwner: s.owner}
	gate := ingestrun.NewGate()
	lines, metrics, scores := &logs.Store{Pool: d.Pool, Clock: d.Clock}, metric.NewStore(d.Pool, gate), &evaluation.ScoreStore{Pool: d.Pool}
	s.public = &read.Server{
		Runs: runs, Progress: s.rows.Progress, Goals: s.rows.Goals, Logs: lines, Gate: gate,
		Metrics: metrics, Hparams: &ingestrun.HParamStore{Pool: d.Pool},
		Validations: &evaluation.ValidationStore{Pool: d.Pool}, Artifacts: s.artifacts(), Records: &report.RawStore{Pool: d.Pool},
		Downloads: &artifact.Downloads{Pool: d.Pool, Blobs: d.Blobs, Audit: audit.NewLog(d.Clock, d.IDs, Name)},
		Hardware:  &read.HardwareStore{Pool: d.Pool}, Scores: scores,
		LogStreams:    follow.NewStreams[*ingestv1.FollowLogsResponse](s.hub, read.LogPages(s.rows.Progress, lines)),
		MetricStreams: follow.NewStreams[*ingestv1.FollowMetricsResponse](s.hub, read.MetricPages(s.rows.Progress, metrics)),
	}
	s.comparison = &read.CompareServer{
		Runs: runs, Goals: s.rows.Goals, Metrics: metrics, Hparams: s.public.Hparams, Validations: s.public.Validations, Clock: d.Clock,
	}
	s.evaluations = &evaluation.Server{
		Runs: runs, Store: &evaluation.Store{Pool: d.Pool}, Progress: s.rows.Progress, Scores: read.EvaluationScores(scores),
	}
	s.peer = &read.PeerServer{
		Runs: runs, Progress: s.rows.Progress, Store: s.commit, Artifacts: s.artifacts(), Expiry: &ingestrun.Expiry{Pool: d.Pool},
		Metrics: metrics, Hparams: s.public.Hparams, Validations: s.public.Validations,
	}
	s.owners = &transfer.Server{Pool: d.Pool, Audit: audit.NewLog(d.Clock, d.IDs, Name)}
	s.keeper = &artifact.Keeper{Pool: d.Pool, Value: metricValue(metrics)}
	s.handler = &httpapi.Handler{
		Grants: ingesttoken.NewChecker(d.Clock, s.grant), Store: s.commit, Marks: marks{s.commit, d.Pool}, Keys: metric.NewKeys(),
		Registrar: &artifact.Registrar{Blobs: d.Blobs, Holds: s.holds()}, Artifacts: s.artifacts(), Note: s.quota.Note(), Lifecycle: s.lifecycle, Checkpoint: s.checkpoint, Keep: s.keep, Signals: s.signals, Ack: s.ack,
		Points: metrics, HParams: s.public.Hparams, Withheld: withheld, Classify: pg.Classify, IDs: d.IDs, Log: d.Log,
	}
	s.download = &httpapi.LogDownload{
		Readable: runs.Admitted, Progress: s.rows.Progress, Logs: lines, Classify: pg.Classify, Clock: d.Clock, IDs: d.IDs, Log: d.Log,
	}
	s.export = &httpapi.MetricExport{LogDownload: s.download, Metrics: metrics}
	return nil
}

// newWithheld registers the counter of withheld parts and returns the function that adds to it; meters may be nil.
func newWithheld(meters otelmetric.MeterProvider) (func(ctx context.Context, kind string, parts int), error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "ingest_withheld_total"
	counter, err := meters.Meter("ingest").Int64Counter(name,
		otelmetric.WithDescription("parts of reports that were not stored because the run is protected, by kind of report"))
	if err != nil {
		return nil, fmt.Errorf("create the counter %s: %w", name, err)
	}
	return func(ctx context.Context, kind string, parts int) {
		counter.Add(ctx, int64(parts), otelmetric.WithAttributes(attribute.String("kind", kind)))
	}, nil
}

// lifecycle forwards a reported event to the jobs service.
func (s *Service) lifecycle(ctx context.Context, g *ingesttoken.Grant, event *report.Lifecycle) error {
	_, err := s.deps.Runs.ReportLifecycle(ctx, &jobspeerv1.ReportLifecycleRequest{
		RunId: g.Owner.RunID, Attempt: g.Attempt, Event: event.Event, Ts: timestamppb.New(event.At), Message: event.Message,
	})
	return err
}

// marks reports which numbered requests are stored.
type marks struct {
	*groupcommit.Committer

	q pg.Querier
}

// Watermark implements httpapi.Marks.
func (m marks) Watermark(ctx context.Context, runID string) (map[string]map[string]int64, error) {
	return groupcommit.Watermark(ctx, m.q, runID)
}
