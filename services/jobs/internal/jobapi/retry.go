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

// Retry submits the spec of an ended job again. The new job resumes from the last checkpoint.
func (a *Admission) Retry(ctx context.Context, req *jobsv1.RetryJobRequest, from *job.Job) (*jobsv1.Job, error) {
	j, err := a.submit(ctx, jobsv1.JobService_RetryJob_FullMethodName, req, func() (*admission.Draft, origin, error) {
		d, err := again(ctx, from)
		parent := job.Parent{Kind: job.ParentRetry, RunID: from.RunID}
		o := origin{}
		if c := from.Checkpoint; c != nil {
			held := *c
			held.Attempt = 0 // checkpoints of the new job's own attempts are newer
			o.checkpoint, parent.Step = &held, c.Step
		}
		o.parents = []job.Parent{parent}
		return d, o, err
	})
	return created(ctx, j, err)
}

// Clone submits the spec of a job as a new job, with the overrides of the request.
func (a *Admission) Clone(ctx context.Context, req *jobsv1.CloneJobRequest, from *job.Job) (*jobsv1.Job, error) {
	j, err := a.submit(ctx, jobsv1.JobService_CloneJob_FullMethodName, req, func() (*admission.Draft, origin, error) {
		d, err := again(ctx, from)
		if err != nil {
			return nil, origin{}, err
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

// Preflight checks a submission against every gate without admitting it.
func (a *Admission) Preflight(ctx context.Context, req *jobsv1.SubmitJobRequest) (*jobsv1.PreflightReport, error) {
	spec, err := jobspec.FromProto(req.GetSpec())
	if err != nil {
		return nil, err
	}
	verdicts, err := admission.RunAll(ctx, a.World.Gates(), &admission.Draft{API: req.GetApi(), Spec: spec, Caller: authn.CallerOf(ctx)})
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
