// Package read owns the read access of users and other services to run data: lists, live streams, and the closing of a
// run, which ends its streams. It promises that a user gets data of a run only after a check that the user may see the
// run.
package read

import (
	"context"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/follow"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Server implements RunDataService. All fields are required.
type Server struct {
	ingestv1.UnimplementedRunDataServiceServer

	Runs          *run.Runs
	Logs          *logs.Store
	Metrics       *metric.Store
	Hparams       *run.HParamStore
	Validations   *evaluation.ValidationStore
	Artifacts     *artifact.Store
	Records       *report.RawStore
	Hardware      *metric.HardwareStore
	Scores        *evaluation.ScoreStore
	LogStreams    *follow.Streams[*ingestv1.FollowLogsResponse]
	MetricStreams *follow.Streams[*ingestv1.FollowMetricsResponse]
}

// listing is a request for a list of data of a run.
type listing interface {
	GetId() string
}

// begin returns the id of the run and the page of a list request. It returns an error if the limit or the offset is out
// of range, or if the caller may not read the run.
func (s *Server) begin(ctx context.Context, in listing, limit, offset *int32) (string, request.Page, error) {
	p, err := request.ReadPage(limit, offset)
	if err != nil {
		return "", p, err
	}
	id, err := s.Runs.Readable(ctx, in.GetId())
	return id, p, err
}

// ListLogs implements RunDataService.
func (s *Server) ListLogs(ctx context.Context, in *ingestv1.ListLogsRequest) (*ingestv1.ListLogsResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	var lines []logs.Line
	for last := int64(p.Offset); len(lines) < p.FetchLimit(); last = lines[len(lines)-1].Seq {
		more, err := s.Logs.Range(ctx, id, last, p.FetchLimit()-len(lines))
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			break
		}
		lines = append(lines, more...)
	}
	lines, more := request.CutPage(lines, p)
	return &ingestv1.ListLogsResponse{Lines: lineProtos(shorten(lines))}, request.SetMore(ctx, more)
}

// ListMetrics implements RunDataService.
func (s *Server) ListMetrics(ctx context.Context, in *ingestv1.ListMetricsRequest) (*ingestv1.ListMetricsResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	series, more, err := s.Metrics.List(ctx, id, in.GetKeys(), p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListMetricsResponse{}
	for _, one := range series {
		out.Series = append(out.Series, seriesProto(&one))
	}
	return out, request.SetMore(ctx, more)
}

// GetHparams implements RunDataService.
func (s *Server) GetHparams(ctx context.Context, in *ingestv1.GetHparamsRequest) (*ingestv1.Hparams, error) {
	id, err := s.Runs.Readable(ctx, in.GetId())
	if err != nil {
		return nil, err
	}
	params, err := s.Hparams.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &ingestv1.Hparams{RunId: id, Params: params}, nil
}

// ListValidations implements RunDataService.
func (s *Server) ListValidations(ctx context.Context, in *ingestv1.ListValidationsRequest) (*ingestv1.ListValidationsResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	rounds, more, err := s.Validations.Rounds(ctx, id, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListValidationsResponse{}
	for _, r := range rounds {
		out.Rounds = append(out.Rounds, roundProto(&r))
	}
	return out, request.SetMore(ctx, more)
}

// ListSamples implements RunDataService.
func (s *Server) ListSamples(ctx context.Context, in *ingestv1.ListSamplesRequest) (*ingestv1.ListSamplesResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	samples, more, err := s.Validations.Samples(ctx, id, in.Step, p)
	if err != nil {
		return nil, err
	}
	return &ingestv1.ListSamplesResponse{Samples: sampleProtos(samples)}, request.SetMore(ctx, more)
}

// ListArtifacts implements RunDataService.
func (s *Server) ListArtifacts(ctx context.Context, in *ingestv1.ListArtifactsRequest) (*ingestv1.ListArtifactsResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	all, more, err := s.Artifacts.List(ctx, id, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListArtifactsResponse{}
	for _, a := range all {
		out.Artifacts = append(out.Artifacts, artifactProto(a))
	}
	return out, request.SetMore(ctx, more)
}
