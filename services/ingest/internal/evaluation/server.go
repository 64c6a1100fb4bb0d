package evaluation

import (
	"context"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Scores returns the newest score of each metric that a run reported under a benchmark's name.
type Scores func(ctx context.Context, runID, name string) ([]*ingestv1.EvaluationMetric, error)

// Progress returns the progress of a run.
type Progress func(ctx context.Context, runID string) (run.Progress, error)

// Server implements AgentEvaluationService. All fields are required.
type Server struct {
	ingestv1.UnimplementedAgentEvaluationServiceServer

	Runs     *run.Runs
	Store    *Store
	Progress Progress
	Scores   Scores
}

// GetAgentEvaluation implements AgentEvaluationService.
func (s *Server) GetAgentEvaluation(
	ctx context.Context, in *ingestv1.GetAgentEvaluationRequest,
) (*ingestv1.AgentEvaluation, error) {
	runID, err := s.readable(ctx, "run_id", in.GetRunId())
	if err != nil {
		return nil, err
	}
	if in.Baseline != nil {
		if _, err := s.readable(ctx, "baseline", in.GetBaseline()); err != nil {
			return nil, err
		}
	}
	head, err := s.Store.Head(ctx, runID)
	if err != nil {
		return nil, err
	}
	if head == nil {
		return none(runID), nil
	}
	rollouts, err := s.Store.Rollouts(ctx, runID)
	if err != nil {
		return nil, err
	}
	return s.assemble(ctx, in, head, rollouts)
}

// assemble builds the response from a run's head and rollouts.
func (s *Server) assemble(
	ctx context.Context, in *ingestv1.GetAgentEvaluationRequest, head *Head, rollouts []Rollout,
) (*ingestv1.AgentEvaluation, error) {
	progress, err := s.Progress(ctx, in.GetRunId())
	if err != nil {
		return nil, err
	}
	out, err := evaluationProto(in.GetRunId(), head, head.Summarise(rollouts), &progress)
	if err != nil {
		return nil, err
	}
	scores, err := s.Scores(ctx, in.GetRunId(), head.Name)
	if err != nil {
		return nil, err
	}
	out.Metrics = append(out.Metrics, scores...)
	if in.Baseline != nil {
		out.Comparison, err = s.compare(ctx, in.GetRunId(), in.GetBaseline(), head, rollouts)
	}
	return out, err
}

// compare compares a run with a baseline. Both runs must have reported the same taskset digest, because rewards of
// different tasks cannot be compared.
func (s *Server) compare(ctx context.Context, runID, baseline string, head *Head, ours []Rollout) (*ingestv1.EvaluationComparison, error) {
	other, err := s.Store.Head(ctx, baseline)
	if err != nil {
		return nil, err
	}
	if other == nil {
		return nil, fault.New(fault.Refused, "baseline", "baseline: run %s reported no evaluation", baseline)
	}
	mine, theirs := head.taskset(), other.taskset()
	if mine == "" || mine != theirs {
		return nil, fault.New(fault.Refused, "baseline", "baseline: run %s did not report the same taskset_digest as this run", baseline)
	}
	rollouts, err := s.Store.Rollouts(ctx, baseline)
	if err != nil {
		return nil, err
	}
	return comparisonProto(baseline, Compare(ours, rollouts, runID+" "+baseline)), nil
}

// readable checks that runID is the id of a run and that the caller may read the run. It returns runID.
func (s *Server) readable(ctx context.Context, field, runID string) (string, error) {
	if err := request.ID(id.Run, field, runID); err != nil {
		return "", err
	}
	return s.Runs.Readable(ctx, runID)
}

// ListAgentEvaluationItems implements AgentEvaluationService.
func (s *Server) ListAgentEvaluationItems(
	ctx context.Context, in *ingestv1.ListAgentEvaluationItemsRequest,
) (*ingestv1.ListAgentEvaluationItemsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	runID, err := s.readable(ctx, "run_id", in.GetRunId())
	if err != nil {
		return nil, err
	}
	head, err := s.Store.Head(ctx, runID)
	if err != nil || head == nil {
		return &ingestv1.ListAgentEvaluationItemsResponse{}, err
	}
	rollouts, more, err := s.Store.List(ctx, runID, p)
	if err != nil {
		return nil, err
	}
	out := &ingestv1.ListAgentEvaluationItemsResponse{}
	for i := range rollouts {
		out.Items = append(out.Items, itemProto(head, &rollouts[i]))
	}
	return out, request.SetMore(ctx, more)
}
