package jobapi

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// editable loads a job and checks that the caller may change it.
func (s *Server) editable(ctx context.Context, jobID string) (*job.Job, error) {
	j, err := s.get(ctx, jobID)
	if err != nil {
		return nil, err
	}
	return j, authn.ScopeOf(ctx).Require(j.OwnerID, j.ProjectID, job.SubjectKind, j.ID)
}

// withStatus converts a job after a state change. The HTTP status is 202 while the job is stopping or pausing,
// otherwise 200.
func withStatus(ctx context.Context, j *job.Job) (*jobsv1.Job, error) {
	status := http.StatusOK
	if j.State == job.Stopping || j.State == job.Pausing {
		status = http.StatusAccepted
	}
	m, err := shown(ctx, j)
	if err != nil {
		return nil, err
	}
	return m, request.SetStatus(ctx, status)
}

// StopJob stops a job.
func (s *Server) StopJob(ctx context.Context, req *jobsv1.StopJobRequest) (*jobsv1.Job, error) {
	j, err := s.editable(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	caller := authn.CallerOf(ctx)
	reason := job.ReasonUserStop
	if caller.IsAdmin() && caller.Subject != j.OwnerID {
		reason = job.ReasonAdminStop
	}
	j, err = s.Mover.Stop(ctx, j.ID, reason, req.GetForce(), job.Cause{}, func(ctx context.Context, tx pgx.Tx) error {
		return s.Trail.Record(ctx, tx, "job.stop", job.SubjectKind, j.ID, map[string]any{"reason": reason, "force": req.GetForce()})
	})
	if err != nil {
		return nil, err
	}
	return withStatus(ctx, j)
}

// PauseJob pauses a running job: the job saves a checkpoint and releases its resources.
func (s *Server) PauseJob(ctx context.Context, req *jobsv1.PauseJobRequest) (*jobsv1.Job, error) {
	j, err := s.editable(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	j, err = s.Mover.Pause(ctx, j.ID, func(ctx context.Context, tx pgx.Tx) error {
		return s.Trail.Record(ctx, tx, "job.pause", job.SubjectKind, j.ID, map[string]any{"attempt": j.Attempt})
	})
	if err != nil {
		return nil, err
	}
	return withStatus(ctx, j)
}

// ResumeJob puts a paused job back into the queue.
func (s *Server) ResumeJob(ctx context.Context, req *jobsv1.ResumeJobRequest) (*jobsv1.Job, error) {
	j, err := s.editable(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	j, err = s.Mover.Resume(ctx, j.ID, func(ctx context.Context, tx pgx.Tx) error {
		return s.Trail.Record(ctx, tx, "job.resume", job.SubjectKind, j.ID, map[string]any{"attempt": j.Attempt})
	})
	if err != nil {
		return nil, err
	}
	return withStatus(ctx, j)
}

// UpdateJob changes the name, labels, priority and limits of a job.
func (s *Server) UpdateJob(ctx context.Context, req *jobsv1.UpdateJobRequest) (*jobsv1.Job, error) {
	j, err := s.editable(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	c := changesFromProto(req)
	c.AllowLower, c.AllowUrgent = authn.CallerOf(ctx).IsAdmin(), authn.CallerOf(ctx).CanManageProject(j.ProjectID)
	change := func(j *job.Job) error {
		if err := request.CheckIfMatch(ctx, j.Seq); err != nil {
			return err
		}
		return c.Apply(j)
	}
	fields := map[string]any{"name": req.GetName(), "labels": req.GetLabels(), "priority": req.GetPriority(), "limits": req.GetLimits()}
	j, err = s.Mover.Update(ctx, j.ID, change, func(ctx context.Context, tx pgx.Tx) error {
		return s.Trail.Record(ctx, tx, "job.update", job.SubjectKind, j.ID, fields)
	})
	if err != nil {
		return nil, err
	}
	return withETag(ctx, j)
}
