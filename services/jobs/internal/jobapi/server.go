package jobapi

import (
	"context"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
)

// Mover changes jobs. Its methods call the function extra in the transaction of the change. *lifecycle.Driver
// implements Mover.
type Mover interface {
	Stop(ctx context.Context, jobID, reason string, force bool, cause job.Cause, extra func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
	Pause(ctx context.Context, jobID string, extra func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
	Resume(ctx context.Context, jobID string, extra func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
	Update(ctx context.Context, jobID string, change func(j *job.Job) error, extra func(ctx context.Context, tx pgx.Tx) error) (*job.Job, error)
}

// Server implements JobService.
type Server struct {
	jobsv1.UnimplementedJobServiceServer
	Pool      *pgxpool.Pool
	Jobs      *job.Store
	Admission *Admission
	Mover     Mover
	Trail     db.Recorder
	Hub       *pg.NotifyHub
	Clock     clock.Clock
	Tables    *tablefeed.Tables[*job.Job]
}

// SubmitJob runs every gate and admits the job, or refuses it and stores nothing. A repeated request with the same
// Idempotency-Key gets the first response, whatever the gates would decide now.
func (s *Server) SubmitJob(ctx context.Context, req *jobsv1.SubmitJobRequest) (*jobsv1.Job, error) {
	return s.Admission.submit(ctx, jobsv1.JobService_SubmitJob_FullMethodName, req, func() (*admission.Draft, origin, error) {
		d, err := draftFromProto(ctx, req.GetApi(), req.GetSpec())
		return d, origin{}, err
	})
}

// PreflightJob checks a submission against every gate without admitting it.
func (s *Server) PreflightJob(ctx context.Context, req *jobsv1.PreflightJobRequest) (*jobsv1.PreflightReport, error) {
	d, err := draftFromProto(ctx, req.GetApi(), req.GetSpec())
	if err != nil {
		return nil, err
	}
	verdicts, err := admission.RunAll(ctx, s.Admission.Inputs.Gates(), d)
	if err != nil {
		return nil, err
	}
	report := &jobsv1.PreflightReport{Ok: true}
	for _, v := range verdicts {
		m := &jobsv1.GateVerdict{Gate: v.Gate, Status: string(v.Status)}
		if v.Refusal != nil {
			detail, status := v.Refusal.Text(), int32(fault.HTTPStatus(v.Refusal.Kind))
			m.Detail, m.Refusal, report.Ok = &detail, &status, false
		}
		report.Gates = append(report.Gates, m)
	}
	return report, nil
}

func draftFromProto(ctx context.Context, api string, m *jobsv1.JobSpec) (*admission.Draft, error) {
	spec, err := jobspec.FromProto(m)
	return &admission.Draft{API: api, Spec: spec, Caller: authn.CallerOf(ctx)}, err
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
	m, err := shown(ctx, j)
	if err != nil {
		return nil, err
	}
	return m, request.SetETag(ctx, j.Seq)
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
	filter, err := filterOf(req)
	if err != nil {
		return nil, err
	}
	if filter.AfterTime, filter.After, err = request.ReadTimePosition(id.Job, req.After); err != nil {
		return nil, err
	}
	jobs, err := s.Jobs.List(ctx, s.Pool, authn.ScopeOf(ctx), filter, p)
	if err != nil {
		return nil, err
	}
	jobs, more := request.CutPage(jobs, p)
	resp := &jobsv1.ListJobsResponse{}
	for _, j := range jobs {
		m, err := shown(ctx, j)
		if err != nil {
			return nil, err
		}
		resp.Jobs = append(resp.Jobs, m)
	}
	return resp, request.SetNextAfter(ctx, more, jobs, func(j **job.Job) string { return request.TimePosition((*j).CreatedAt, (*j).ID) })
}

// filters are the filters of a request for a list or a table of jobs.
type filters interface {
	GetState() string
	GetProject() string
	GetOwner() string
	GetLabel() []string
	GetQ() string
	GetCreatedAfter() *timestamppb.Timestamp
	GetCreatedBefore() *timestamppb.Timestamp
}

// filterOf returns the filter of a request.
func filterOf(req filters) (job.Filter, error) {
	state := job.State(req.GetState())
	if state != "" && !slices.Contains(job.States(), state) {
		return job.Filter{}, fault.InvalidFields(fault.At(fault.TypeEnum, "Input should be a job state", "state"))
	}
	return job.Filter{
		State: state, Project: req.GetProject(), Owner: req.GetOwner(), Labels: req.GetLabel(), Text: req.GetQ(),
		CreatedFrom: request.StorableTime(req.GetCreatedAfter()), CreatedTo: request.StorableTime(req.GetCreatedBefore()),
	}, nil
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
	events, err := event.ListAfter(ctx, s.Pool, job.SubjectKind, j.ID, req.GetAfter(), ask)
	if err != nil {
		return nil, err
	}
	events, more := request.CutPage(events, p)
	resp := &jobsv1.ListJobEventsResponse{}
	for _, e := range events {
		resp.Events = append(resp.Events, eventToProto(e))
	}
	return resp, request.SetNextAfter(ctx, more, events, func(e *event.Event) string { return strconv.FormatInt(e.Seq, 10) })
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
