package run

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/timestamppb"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
)

// Server implements RunService.
type Server struct {
	jobsv1.UnimplementedRunServiceServer
	Pool     *pgxpool.Pool
	Runs     Store
	Projects authpeerv1.ProjectServiceClient
	Clock    clock.Clock
	Events   *event.Log
	Trail    db.Recorder
	Tables   *tablefeed.Tables[*Run]
}

// ListRuns lists the runs that the caller may see and that match the filters: without filters, those that have ended and
// are not archived.
func (s *Server) ListRuns(ctx context.Context, req *jobsv1.ListRunsRequest) (*jobsv1.ListRunsResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	filter, err := filterFromProto(req)
	if err != nil {
		return nil, err
	}
	filter.Protected, filter.Sort = req.Protected, req.GetSort()
	if err := filter.SetAfter(req.After); err != nil {
		return nil, err
	}
	runs, err := s.Runs.List(ctx, s.Pool, authn.ScopeOf(ctx), filter, p)
	if err != nil {
		return nil, err
	}
	runs, more := request.CutPage(runs, p)
	resp := &jobsv1.ListRunsResponse{}
	for _, r := range runs {
		resp.Runs = append(resp.Runs, ToProto(r))
	}
	return resp, request.SetNextAfter(ctx, more, runs, func(r **Run) string { return filter.Position(*r) })
}

// filters are the filters of a request for a list or a table of runs, without protected.
type filters interface {
	GetState() string
	GetProject() string
	GetOwner() string
	GetRecipe() string
	GetQ() string
	GetTag() []string
	GetLabel() []string
	GetArchived() string
	GetCreatedAfter() *timestamppb.Timestamp
	GetCreatedBefore() *timestamppb.Timestamp
}

// filterFromProto returns the filter of a request, without protected.
func filterFromProto(req filters) (Filter, error) {
	f := Filter{
		State: cmp.Or(req.GetState(), finished), Project: req.GetProject(), Owner: req.GetOwner(), Recipe: req.GetRecipe(), Text: req.GetQ(),
		Labels: req.GetLabel(), Archived: req.GetArchived(), CreatedFrom: request.StorableTime(req.GetCreatedAfter()),
		CreatedTo: request.StorableTime(req.GetCreatedBefore()),
	}
	if f.State == "all" {
		f.State = ""
	}
	for i, given := range req.GetTag() {
		tag, ok := NormalTag(given)
		if !ok {
			return f, fault.InvalidFields(fault.At(fault.TypeValue, "Input should be a tag", "tag", i))
		}
		f.Tags = append(f.Tags, tag)
	}
	return f, nil
}

// GetRun returns a run.
func (s *Server) GetRun(ctx context.Context, req *jobsv1.GetRunRequest) (*jobsv1.Run, error) {
	r, err := s.get(ctx, req.GetRunId())
	if err != nil {
		return nil, err
	}
	return withETag(ctx, r)
}

// ToProto converts a run.
func ToProto(r *Run) *jobsv1.Run {
	m := &jobsv1.Run{
		Id: r.ID, JobId: r.JobID, Project: r.Project, Owner: r.OwnerName, Name: r.Name,
		State: jobapi.StateToProto(job.State(r.State)), Attempts: int32(r.Attempts), RecipeLock: r.RecipeLock,
		Bindings: r.Bindings, RecipeDigest: r.RecipeDigest, SpecDigest: r.SpecDigest,
		CreatedAt: timestamppb.New(r.CreatedAt), StartedAt: request.OptionalTime(r.StartedAt), EndedAt: request.OptionalTime(r.EndedAt), Protected: r.Protected,
		Tags: r.Tags, Labels: r.Labels, Notes: r.Notes, NotesVersion: r.NotesVersion, Archived: r.Archived, Version: r.Version,
		SilenceS: r.SilenceS,
	}
	for _, p := range r.Parents {
		m.Parents = append(m.Parents, &jobsv1.RunParent{Kind: p.Kind, RunId: p.RunID, Step: p.Step})
	}
	if r.EndReason != "" {
		m.EndReason = &r.EndReason
	}
	return m
}
