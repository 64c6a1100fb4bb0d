package jobapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// RetryJob submits the spec of an ended job again. If the recipe can resume, the new job starts from the last
// checkpoint.
func (s *Server) RetryJob(ctx context.Context, req *jobsv1.RetryJobRequest) (*jobsv1.Job, error) {
	from, err := s.editable(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	if !from.State.Terminal() {
		return nil, fault.New(fault.Conflict, "job_state", "only a job that has ended can be retried: job %s is %s", from.ID, from.State)
	}
	j, err := s.Admission.submit(ctx, jobsv1.JobService_RetryJob_FullMethodName, req, func() (*admission.Draft, origin, error) {
		d, err := again(ctx, from)
		parent := job.Parent{Kind: job.ParentRetry, RunID: from.RunID}
		o := origin{}
		if c := from.Checkpoint; c != nil {
			held := *c
			held.Attempt = 0 // lower than any attempt of the new job, so that the new job's checkpoints count as newer
			o.checkpoint, parent.Step = &held, c.Step
		}
		o.parents = []job.Parent{parent}
		if err != nil || !from.Protected {
			return d, o, err
		}
		d.Inherited = &admission.Protection{}
		d.Inherited.Datasets, err = s.Jobs.ProtectedDatasets(ctx, s.Pool, from.RunID)
		return d, o, err
	})
	return created(ctx, j, err)
}

// CloneJob submits the spec of a job as a new job, with the overrides of the request. A caller who may not read the
// values of the job's environment variables cannot clone it, because the clone would contain them.
func (s *Server) CloneJob(ctx context.Context, req *jobsv1.CloneJobRequest) (*jobsv1.Job, error) {
	from, err := s.get(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	j, err := s.Admission.submit(ctx, jobsv1.JobService_CloneJob_FullMethodName, req, func() (*admission.Draft, origin, error) {
		d, err := again(ctx, from)
		if err != nil {
			return nil, origin{}, err
		}
		if len(d.Spec.Env) > 0 && !d.Caller.CanEdit(from.OwnerID, from.ProjectID) {
			return nil, origin{}, fault.New(fault.Forbidden, "env_hidden",
				"job %s has environment variables whose values you may not read; ask its owner or a project editor to clone it", from.ID)
		}
		if err := jobspec.Override(&d.Spec, req); err != nil {
			return nil, origin{}, err
		}
		return d, origin{parents: []job.Parent{{Kind: job.ParentClone, RunID: from.RunID}}}, nil
	})
	return created(ctx, j, err)
}

// created sets status 201: retry and clone create a job although their methods are not named Create.
func created(ctx context.Context, j *jobsv1.Job, err error) (*jobsv1.Job, error) {
	if err != nil {
		return nil, err
	}
	return j, request.SetStatus(ctx, http.StatusCreated)
}

// again returns a draft with the spec of an existing job and the current caller.
func again(ctx context.Context, from *job.Job) (*admission.Draft, error) {
	d := &admission.Draft{API: jobspec.Dialect, Caller: authn.CallerOf(ctx)}
	if err := json.Unmarshal(from.Spec, &d.Spec); err != nil {
		return nil, fmt.Errorf("decode the spec of job %s: %w", from.ID, err)
	}
	d.Spec.Complete()
	return d, nil
}
