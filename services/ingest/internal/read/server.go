// Package read lets users and other services read the data of runs, as lists and as live streams. It also closes runs,
// which ends their streams. It promises that a user gets data of a run only after a check that the user may see the
// run.
package read

import (
	"context"
	"encoding/hex"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
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
	Progress      Progress
	Goals         Goals
	Logs          *logs.Store
	Gate          *run.Gate // admits the searches of logs; it should be that of Metrics
	Metrics       *metric.Store
	Hparams       *run.HParamStore
	Validations   *evaluation.ValidationStore
	Artifacts     *artifact.Store
	Downloads     *artifact.Downloads
	Records       *report.RawStore
	Hardware      *HardwareStore
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

// GetHparams implements RunDataService.
func (s *Server) GetHparams(ctx context.Context, in *ingestv1.GetHparamsRequest) (*ingestv1.Hparams, error) {
	id, err := s.Runs.Readable(ctx, in.GetId())
	if err != nil {
		return nil, err
	}
	params, err := s.Hparams.Get(ctx, id, in.Rank)
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
	rounds, more, err := s.Validations.Rounds(ctx, id, attemptOf(in.GetAttempt()), in.Rank, p)
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
	q, err := sampleQuery(in)
	if err != nil {
		return nil, err
	}
	if q.Text != "" {
		leave, err := s.Gate.Enter(ctx, run.CallerSearcher(ctx))
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	samples, more, err := s.Validations.Samples(ctx, id, q, p)
	if err != nil {
		return nil, err
	}
	return &ingestv1.ListSamplesResponse{Samples: sampleProtos(samples, int(in.GetTextFrom()))},
		request.SetNextAfter(ctx, more, samples, func(s *evaluation.Sample) string { return s.Place.String() })
}

// sampleQuery returns the query of a request, or a 422 error if its conditions exclude each other.
func sampleQuery(in *ingestv1.ListSamplesRequest) (*evaluation.SampleQuery, error) {
	q := &evaluation.SampleQuery{
		Step: in.Step, From: in.FromStep, To: in.ToStep, MinReward: in.MinReward, MaxReward: in.MaxReward, Text: in.GetText(),
		Attempt: attemptOf(in.GetAttempt()), Rank: in.Rank,
	}
	if q.Step != nil && (q.From != nil || q.To != nil) {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "Value error, step cannot be combined with from_step and to_step", "step"))
	}
	if err := place(q, in.After, in.Sample); err != nil {
		return nil, err
	}
	if in.Prompt == nil {
		return q, nil
	}
	raw, err := hex.DecodeString(in.GetPrompt())
	if err != nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be the prompt of a sample", "prompt"))
	}
	q.Prompt = raw
	return q, nil
}

// place adds to a query the sample after which a list continues, and the only one that is listed.
func place(q *evaluation.SampleQuery, after, sample *string) (err error) {
	if q.After, err = readPosition("after", after); err != nil {
		return err
	}
	if q.Only, err = readPosition("sample", sample); err == nil && q.Only != nil {
		q.Step, q.From, q.To, q.Attempt = &q.Only.Step, nil, nil, q.Only.Attempt
	}
	return err
}

// readPosition reads the id of a sample from the named field of a request; nil if it is not set.
func readPosition(field string, text *string) (*id.Sample, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // an unset field is not an error
	}
	at, ok := id.ParseSample(*text)
	if !ok {
		return nil, fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be the id of a sample", field))
	}
	return &at, nil
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
		out.Artifacts = append(out.Artifacts, shownArtifactProto(a))
	}
	return out, request.SetMore(ctx, more)
}

// ListArtifactDownloads implements RunDataService.
func (s *Server) ListArtifactDownloads(
	ctx context.Context, in *ingestv1.ListArtifactDownloadsRequest,
) (*ingestv1.ListArtifactDownloadsResponse, error) {
	if err := request.ID(id.Artifact, "artifact_id", in.GetArtifactId()); err != nil {
		return nil, err
	}
	runID, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	a, err := s.Artifacts.Get(ctx, runID, in.GetArtifactId())
	if err != nil {
		return nil, err
	}
	signed, err := s.Downloads.Sign(ctx, a)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListArtifactDownloadsResponse{}
	if p.Offset == 0 {
		out.Files = append(out.Files, downloadProto(a, signed))
	}
	return out, nil
}

// ListRunDownloads implements RunDataService.
func (s *Server) ListRunDownloads(ctx context.Context, in *ingestv1.ListRunDownloadsRequest) (*ingestv1.ListRunDownloadsResponse, error) {
	if in.After != nil {
		if err := request.ID(id.Artifact, "after", in.GetAfter()); err != nil {
			return nil, err
		}
	}
	runID, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	files, more, err := s.Downloads.Files(ctx, runID, in.GetAfter(), p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListRunDownloadsResponse{}
	for _, f := range files {
		out.Files = append(out.Files, fileProto(f))
	}
	return out, request.SetNextAfter(ctx, more, files, func(last **artifact.File) string { return (*last).ID })
}
