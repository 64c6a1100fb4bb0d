package ingest

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
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
func (s *Service) wire() {
	d := s.deps
	runs := &ingestrun.Runs{Rows: s.rows, FetchOwner: s.owner}
	lines, metrics, scores := &logs.Store{Pool: d.Pool}, metric.NewStore(d.Pool), &evaluation.ScoreStore{Pool: d.Pool}
	s.public = &read.Server{
		Runs: runs, Logs: lines, Metrics: metrics, Hparams: &ingestrun.HParamStore{Pool: d.Pool},
		Validations: &evaluation.ValidationStore{Pool: d.Pool}, Artifacts: s.artifacts(), Records: &report.RawStore{Pool: d.Pool},
		Hardware: &metric.HardwareStore{Pool: d.Pool}, Scores: scores,
		LogStreams:    follow.NewStreams[*ingestv1.FollowLogsResponse](s.hub, read.LogPages(s.rows.Progress, lines)),
		MetricStreams: follow.NewStreams[*ingestv1.FollowMetricsResponse](s.hub, read.MetricPages(s.rows.Progress, metrics)),
	}
	s.evaluations = &evaluation.Server{
		Runs: runs, Store: &evaluation.Store{Pool: d.Pool}, Progress: s.rows.Progress, Scores: read.EvaluationScores(scores),
	}
	s.peer = &read.PeerServer{
		Runs: runs, Store: s.commit, Artifacts: s.artifacts(),
		Metrics: metrics, Hparams: s.public.Hparams, Validations: s.public.Validations,
	}
	s.owners = &transfer.Server{Pool: d.Pool, Audit: audit.NewLog(d.Clock, d.IDs, Name)}
	s.handler = &httpapi.Handler{
		Grants: ingesttoken.NewChecker(d.Clock, s.grant), Store: s.commit, Marks: marks{d.Pool, d.Clock}, Keys: metric.NewKeys(),
		Registrar: &artifact.Registrar{Blobs: d.Blobs}, Artifacts: s.artifacts(), Lifecycle: s.lifecycle, Checkpoint: s.checkpoint, Signals: s.signals, Ack: s.ack,
		Classify: pg.Classify, Clock: d.Clock, IDs: d.IDs, Log: d.Log,
	}
}

// owner fetches from jobs the owner of a run, given the id of the run or of its job.
func (s *Service) owner(ctx context.Context, id string, readable bool) (*ingestrun.Owner, error) {
	o, err := s.deps.Runs.GetRunOwner(ctx, &jobspeerv1.GetRunOwnerRequest{Id: id, Readable: readable})
	if err != nil {
		return nil, err
	}
	return ownerOf(o), nil
}

func ownerOf(o *jobspeerv1.RunOwner) *ingestrun.Owner {
	return &ingestrun.Owner{
		RunID: o.GetRunId(), JobID: o.GetJobId(), OwnerID: o.GetOwnerId(), ProjectID: o.GetProjectId(),
		Project: o.GetProject(), Visibility: o.GetVisibility(), VisibilityVersion: o.GetVisibilityVersion(),
	}
}

// grant fetches from jobs the grant of an ingest token. It also stores the run's row, to which all reported data
// refers.
func (s *Service) grant(ctx context.Context, hash []byte) (*ingesttoken.Grant, error) {
	g, err := s.deps.Runs.ResolveIngestToken(ctx, &jobspeerv1.ResolveIngestTokenRequest{TokenHash: hash})
	if err != nil {
		return nil, err
	}
	out := &ingesttoken.Grant{
		Owner: *ownerOf(g.GetOwner()), Attempt: g.GetAttempt(), Container: g.GetContainer(), Current: g.GetCurrent(), Withhold: g.GetWithhold(),
	}
	out.Owner.RunID, out.Owner.JobID = g.GetRunId(), g.GetJobId()
	out.EndedAt, out.ExpiresAt = request.TimeOf(g.GetEndedAt()), request.TimeOrZero(g.GetExpiresAt())
	return out, s.rows.Upsert(ctx, &out.Owner)
}

// lifecycle forwards a reported event to jobs.
func (s *Service) lifecycle(ctx context.Context, g *ingesttoken.Grant, event *report.Lifecycle) error {
	_, err := s.deps.Runs.ReportLifecycle(ctx, &jobspeerv1.ReportLifecycleRequest{
		RunId: g.Owner.RunID, Attempt: g.Attempt, Event: event.Event, Ts: timestamppb.New(event.At), Message: event.Message,
	})
	return err
}

// marks reads which numbered requests are stored.
type marks struct {
	q     pg.Querier
	clock clock.Clock
}

// Claim implements httpapi.Marks.
func (m marks) Claim(ctx context.Context, runID, stream string, key groupcommit.Key, digest groupcommit.Digest) (bool, error) {
	return groupcommit.Claim(ctx, m.q, m.clock.Now(), runID, stream, key, digest)
}

// Watermark implements httpapi.Marks.
func (m marks) Watermark(ctx context.Context, runID string) (map[string]map[string]int64, error) {
	return groupcommit.Watermark(ctx, m.q, runID)
}
