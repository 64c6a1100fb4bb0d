package read

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// GetEnvironment implements RunDataService. If the run, or the requested attempt, reported no environment, the response
// contains only the id of the run.
func (s *Server) GetEnvironment(ctx context.Context, in *ingestv1.GetEnvironmentRequest) (*ingestv1.Environment, error) {
	id, err := s.Runs.Readable(ctx, in.GetId())
	if err != nil {
		return nil, err
	}
	picture, err := s.Records.Environment(ctx, id, in.Attempt)
	if err != nil || picture == nil {
		return &ingestv1.Environment{RunId: id}, err
	}
	return environmentProto(id, picture)
}

// ListNodes implements RunDataService.
func (s *Server) ListNodes(ctx context.Context, in *ingestv1.ListNodesRequest) (*ingestv1.ListNodesResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	nodes, more, err := s.Records.Nodes(ctx, id, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListNodesResponse{}
	for i := range nodes {
		node, err := nodeProto(&nodes[i])
		if err != nil {
			return nil, err
		}
		out.Nodes = append(out.Nodes, node)
	}
	return out, request.SetMore(ctx, more)
}

// defaultPoints is the maximum number of points per series if the request sets no maximum.
const defaultPoints = 1000

// ListHardware implements RunDataService.
func (s *Server) ListHardware(ctx context.Context, in *ingestv1.ListHardwareRequest) (*ingestv1.ListHardwareResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	query := HardwareQuery{
		Keys: in.GetKeys(), Node: in.Node, Points: defaultPoints,
		Since: request.TimeOrZero(in.GetSince()), Until: request.TimeOrZero(in.GetUntil()),
	}
	if in.Points != nil {
		query.Points = int(in.GetPoints())
	}
	series, more, err := s.Hardware.List(ctx, id, query, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListHardwareResponse{}
	for i := range series {
		out.Series = append(out.Series, hardwareProto(&series[i]))
	}
	return out, request.SetMore(ctx, more)
}

// ListBenchmarks implements RunDataService.
func (s *Server) ListBenchmarks(ctx context.Context, in *ingestv1.ListBenchmarksRequest) (*ingestv1.ListBenchmarksResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	scores, more, err := s.Scores.List(ctx, id, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListBenchmarksResponse{}
	for i := range scores {
		out.Scores = append(out.Scores, scoreProto(&scores[i]))
	}
	return out, request.SetMore(ctx, more)
}

// ListHparamChanges implements RunDataService.
func (s *Server) ListHparamChanges(
	ctx context.Context, in *ingestv1.ListHparamChangesRequest,
) (*ingestv1.ListHparamChangesResponse, error) {
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	changes, more, err := s.Hparams.Changes(ctx, id, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListHparamChangesResponse{}
	values := make([]*text, len(changes))
	for i := range changes {
		values[i] = newText(changes[i].Value, 0)
	}
	most := level(values, maxText)
	for i := range changes {
		c := &changes[i]
		_, cut := cutTogether(values[i:i+1], most)
		out.Changes = append(out.Changes, &ingestv1.HparamChange{
			Key: c.Key, Value: values[i].json(), Truncated: cut, Attempt: c.Attempt,
			ReportedAt: timestamppb.New(c.ReportedAt), ReplacedAt: timestamppb.New(c.ReplacedAt),
		})
	}
	return out, request.SetMore(ctx, more)
}

// environmentProto converts a stored environment report.
func environmentProto(runID string, r *report.RawRecord) (*ingestv1.Environment, error) {
	var body struct {
		Python, Cuda, Driver, Nccl, OS *string
		Packages, GPUs, Git            json.RawMessage
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, fmt.Errorf("read a stored environment: %w", err)
	}
	return &ingestv1.Environment{
		RunId: runID, Attempt: &r.Attempt, ReportedAt: timestamppb.New(r.At), Python: body.Python, Cuda: body.Cuda,
		Driver: body.Driver, Nccl: body.Nccl, Os: body.OS, Packages: body.Packages, Gpus: body.GPUs, Git: body.Git,
	}, nil
}

// nodeProto converts a stored node report.
func nodeProto(r *report.RawRecord) (*ingestv1.NodeEnvironment, error) {
	var body struct {
		Rank          int32
		Host          string
		GPUs, IB, CPU json.RawMessage
		MemGB         *float64 `json:"mem_gb"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, fmt.Errorf("read a stored node: %w", err)
	}
	return &ingestv1.NodeEnvironment{
		Rank: body.Rank, Host: body.Host, Attempt: r.Attempt, ReportedAt: timestamppb.New(r.At), Gpus: body.GPUs, Ib: body.IB,
		Cpu: body.CPU, MemGb: body.MemGB,
	}, nil
}

func hardwareProto(s *HardwareSeries) *ingestv1.HardwareSeries {
	out := &ingestv1.HardwareSeries{Node: request.NonEmpty(s.Node), Gpu: request.NonEmpty(s.GPU), Key: s.Key, Omitted: s.Omitted, Points: make([]*ingestv1.HardwarePoint, len(s.Points))}
	for i, p := range s.Points {
		out.Points[i] = &ingestv1.HardwarePoint{Ts: timestamppb.New(p.At), Value: p.Value, Attempt: p.Attempt}
	}
	return out
}

// EvaluationScores returns a function that loads the newest reported score of each metric of a benchmark and converts
// these scores to metrics of an evaluation.
func EvaluationScores(store *evaluation.ScoreStore) evaluation.Scores {
	return func(ctx context.Context, runID, name string) ([]*ingestv1.EvaluationMetric, error) {
		scores, err := store.Newest(ctx, runID, name)
		if err != nil {
			return nil, err
		}
		out := make([]*ingestv1.EvaluationMetric, len(scores))
		for i := range scores {
			out[i] = reportedProto(&scores[i])
		}
		return out, nil
	}
}

// normal is the 97.5 % quantile of the standard normal distribution. It turns a reported standard error into a 95 %
// confidence interval.
const normal = 1.959963984540054

func reportedProto(s *evaluation.Score) *ingestv1.EvaluationMetric {
	m := &ingestv1.EvaluationMetric{Name: s.Metric, Value: s.Value, Stderr: s.Stderr, N: s.N, Source: "reported"}
	if s.Stderr != nil {
		m.Ci95 = &ingestv1.Interval{Low: s.Value - normal**s.Stderr, High: s.Value + normal**s.Stderr}
	}
	return m
}

func scoreProto(s *evaluation.Score) *ingestv1.BenchmarkScore {
	return &ingestv1.BenchmarkScore{
		Id: s.ID, Attempt: s.Attempt, ReportedAt: timestamppb.New(s.At), Name: s.Name, Version: s.Version, Metric: s.Metric,
		Value: s.Value, N: s.N, Stderr: s.Stderr, ConfigDigest: s.ConfigDigest, SamplesUri: s.SamplesURI,
	}
}
