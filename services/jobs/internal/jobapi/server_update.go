package jobapi

import (
	"context"

	"github.com/jackc/pgx/v5"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// UpdateJob changes the name, labels, priority and limits of a job.
func (s *Server) UpdateJob(ctx context.Context, req *jobsv1.UpdateJobRequest) (*jobsv1.Job, error) {
	j, err := s.editable(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	c := changesFromProto(req)
	c.AllowLower = authn.CallerOf(ctx).IsAdmin()
	change := func(j *job.Job) error {
		if err := request.CheckIfMatch(ctx, j.Seq); err != nil {
			return err
		}
		return c.Apply(j)
	}
	j, err = s.Mover.Update(ctx, j.ID, change, func(ctx context.Context, tx pgx.Tx) error {
		return s.Trail.Record(ctx, tx, "job.update", job.SubjectKind, j.ID, map[string]any{
			"name": req.GetName(), "labels": req.GetLabels(), "priority": req.GetPriority(), "limits": req.GetLimits(),
		})
	})
	if err != nil {
		return nil, err
	}
	return withETag(ctx, j)
}

// RetryJob submits an ended job again.
func (s *Server) RetryJob(ctx context.Context, req *jobsv1.RetryJobRequest) (*jobsv1.Job, error) {
	j, err := s.editable(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	if !j.State.Terminal() {
		return nil, fault.New(fault.Conflict, "job_state", "only a job that has ended can be retried: job %s is %s", j.ID, j.State)
	}
	return s.Submitter.Retry(ctx, req, j)
}

// CloneJob submits the spec of a job as a new job.
func (s *Server) CloneJob(ctx context.Context, req *jobsv1.CloneJobRequest) (*jobsv1.Job, error) {
	j, err := s.get(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	return s.Submitter.Clone(ctx, req, j)
}

// PreflightJob checks a submission against every gate without admitting it.
func (s *Server) PreflightJob(ctx context.Context, req *jobsv1.PreflightJobRequest) (*jobsv1.PreflightReport, error) {
	return s.Submitter.Preflight(ctx, &jobsv1.SubmitJobRequest{Api: req.GetApi(), Spec: req.GetSpec()})
}
