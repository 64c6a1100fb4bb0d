package jobapi

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Mover changes jobs.
type Mover interface {
	Stop(ctx context.Context, jobID, reason string, force bool, cause job.Cause, also func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
	Pause(ctx context.Context, jobID string, also func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
	Resume(ctx context.Context, jobID string, also func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
	Update(ctx context.Context, jobID string, change func(j *job.Job) error, also func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
}

// Submitter admits submissions.
type Submitter interface {
	Submit(ctx context.Context, req *jobsv1.SubmitJobRequest) (*jobsv1.Job, error)
	Retry(ctx context.Context, req *jobsv1.RetryJobRequest, from *job.Job) (*jobsv1.Job, error)
	Clone(ctx context.Context, req *jobsv1.CloneJobRequest, from *job.Job) (*jobsv1.Job, error)
	Preflight(ctx context.Context, req *jobsv1.SubmitJobRequest) (*jobsv1.PreflightReport, error)
}

// Watcher streams the changes of jobs.
type Watcher interface {
	Watch(req *jobsv1.WatchJobRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse]) error
}

// Server implements JobService.
type Server struct {
	jobsv1.UnimplementedJobServiceServer
	Pool      *pgxpool.Pool
	Jobs      *job.Store
	Submitter Submitter
	Mover     Mover
	Watcher   Watcher
	Trail     db.Recorder
}

// SubmitJob runs every gate and admits the job, or refuses it without a trace.
func (s *Server) SubmitJob(ctx context.Context, req *jobsv1.SubmitJobRequest) (*jobsv1.Job, error) {
	return s.Submitter.Submit(ctx, req)
}

// WatchJob sends the job as it was after each of its changes.
func (s *Server) WatchJob(req *jobsv1.WatchJobRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobResponse]) error {
	return s.Watcher.Watch(req, stream)
}

// GetJob returns a job.
func (s *Server) GetJob(ctx context.Context, req *jobsv1.GetJobRequest) (*jobsv1.Job, error) {
	j, err := s.get(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	return withETag(ctx, j)
}

// withETag converts a job and sets its version as the ETag, for use with If-Match.
func withETag(ctx context.Context, j *job.Job) (*jobsv1.Job, error) {
	return ToProto(j), request.SetETag(ctx, j.Seq)
}

func (s *Server) get(ctx context.Context, jobID string) (*job.Job, error) {
	if err := request.ID(id.Job, "job_id", jobID); err != nil {
		return nil, err
	}
	return s.Jobs.Get(ctx, s.Pool, authn.ScopeOf(ctx), jobID)
}

// ListJobs lists the jobs that the caller may see, newest first.
func (s *Server) ListJobs(ctx context.Context, req *jobsv1.ListJobsRequest) (*jobsv1.ListJobsResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	state := job.State(req.GetState())
	if state != "" && !slices.Contains(job.States(), state) {
		return nil, fault.InvalidFields(fault.At(fault.TypeEnum, "Input should be a job state", "state"))
	}
	filter := job.Filter{State: state, Project: req.GetProject(), Owner: req.GetOwner(), Labels: req.GetLabel(), Text: req.GetQ()}
	jobs, err := s.Jobs.List(ctx, s.Pool, authn.ScopeOf(ctx), filter, p)
	if err != nil {
		return nil, err
	}
	jobs, more := request.CutPage(jobs, p)
	resp := &jobsv1.ListJobsResponse{}
	for _, j := range jobs {
		resp.Jobs = append(resp.Jobs, ToProto(j))
	}
	return resp, request.SetMore(ctx, more)
}

// ListJobEvents lists the events of a job, oldest first.
func (s *Server) ListJobEvents(ctx context.Context, req *jobsv1.ListJobEventsRequest) (*jobsv1.ListJobEventsResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	j, err := s.get(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	ask := request.Page{Limit: p.FetchLimit(), Offset: p.Offset}
	events, err := event.List(ctx, s.Pool, job.SubjectKind, j.ID, ask)
	if err != nil {
		return nil, err
	}
	events, more := request.CutPage(events, p)
	resp := &jobsv1.ListJobEventsResponse{}
	for _, e := range events {
		resp.Events = append(resp.Events, eventToProto(e))
	}
	return resp, request.SetMore(ctx, more)
}

// ListAttempts lists the attempts of a job, oldest first.
func (s *Server) ListAttempts(ctx context.Context, req *jobsv1.ListAttemptsRequest) (*jobsv1.ListAttemptsResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	j, err := s.get(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	attempts, err := s.Jobs.Attempts(ctx, s.Pool, j.ID, p)
	if err != nil {
		return nil, err
	}
	attempts, more := request.CutPage(attempts, p)
	resp := &jobsv1.ListAttemptsResponse{}
	for _, a := range attempts {
		resp.Attempts = append(resp.Attempts, attemptToProto(a))
	}
	return resp, request.SetMore(ctx, more)
}
