package run

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
)

// Server implements RunService.
type Server struct {
	jobsv1.UnimplementedRunServiceServer
	Pool *pgxpool.Pool
	Runs Store
}

// ListRuns lists finished runs, newest first. With state=all it also lists runs that have not ended.
func (s *Server) ListRuns(ctx context.Context, req *jobsv1.ListRunsRequest) (*jobsv1.ListRunsResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	runs, err := s.Runs.List(ctx, s.Pool, authn.ScopeOf(ctx), req.GetState() == "all", p)
	if err != nil {
		return nil, err
	}
	runs, more := request.CutPage(runs, p)
	resp := &jobsv1.ListRunsResponse{}
	for _, r := range runs {
		resp.Runs = append(resp.Runs, toProto(r))
	}
	return resp, request.SetMore(ctx, more)
}

// GetRun returns a run.
func (s *Server) GetRun(ctx context.Context, req *jobsv1.GetRunRequest) (*jobsv1.Run, error) {
	if err := request.ID(id.Run, "run_id", req.GetRunId()); err != nil {
		return nil, err
	}
	r, err := s.Runs.Get(ctx, s.Pool, authn.ScopeOf(ctx), req.GetRunId())
	if err != nil {
		return nil, err
	}
	return toProto(r), nil
}

func toProto(r *Run) *jobsv1.Run {
	m := &jobsv1.Run{
		Id: r.ID, JobId: r.JobID, Project: r.Project, Owner: r.OwnerName, Name: r.Name,
		State: jobapi.StateToProto(job.State(r.State)), Attempts: int32(r.Attempts), RecipeLock: r.RecipeLock,
		Bindings: r.Bindings, RecipeDigest: r.RecipeDigest, SpecDigest: r.SpecDigest,
		CreatedAt: timestamppb.New(r.CreatedAt), StartedAt: request.OptionalTime(r.StartedAt), EndedAt: request.OptionalTime(r.EndedAt),
	}
	for _, p := range r.Parents {
		m.Parents = append(m.Parents, &jobsv1.RunParent{Kind: p.Kind, RunId: p.RunID, Step: p.Step})
	}
	if r.EndReason != "" {
		m.EndReason = &r.EndReason
	}
	return m
}
