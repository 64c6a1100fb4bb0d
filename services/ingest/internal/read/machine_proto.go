package read

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

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

func hardwareProto(s *metric.HardwareSeries) *ingestv1.HardwareSeries {
	out := &ingestv1.HardwareSeries{Node: request.NonEmpty(s.Node), Gpu: request.NonEmpty(s.GPU), Key: s.Key, Points: make([]*ingestv1.HardwarePoint, len(s.Points))}
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
