package desk

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// mine loads a job that the caller may change.
func (s *Server) mine(ctx context.Context, jobID string) (*job.Job, error) {
	j, err := s.get(ctx, jobID)
	if err != nil {
		return nil, err
	}
	return j, authn.ScopeOf(ctx).Require(j.OwnerID, j.ProjectID, job.SubjectKind, j.ID)
}

// moved shows a job after a move: 202 while the move is under way, 200 once it is made.
func moved(ctx context.Context, j *job.Job) (*jobsv1.Job, error) {
	status := http.StatusOK
	if j.State == job.Stopping || j.State == job.Pausing {
		status = http.StatusAccepted
	}
	return ToProto(j), request.SetStatus(ctx, status)
}

// StopJob ends a job.
func (s *Server) StopJob(ctx context.Context, req *jobsv1.StopJobRequest) (*jobsv1.Job, error) {
	j, err := s.mine(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	caller := authn.Of(ctx)
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
	return moved(ctx, j)
}

// PauseJob has a running job save a checkpoint and give back what it holds.
func (s *Server) PauseJob(ctx context.Context, req *jobsv1.PauseJobRequest) (*jobsv1.Job, error) {
	j, err := s.mine(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	j, err = s.Mover.Pause(ctx, j.ID, func(ctx context.Context, tx pgx.Tx) error {
		return s.Trail.Record(ctx, tx, "job.pause", job.SubjectKind, j.ID, map[string]any{"attempt": j.Attempt})
	})
	if err != nil {
		return nil, err
	}
	return moved(ctx, j)
}

// ResumeJob puts a paused job back into the queue.
func (s *Server) ResumeJob(ctx context.Context, req *jobsv1.ResumeJobRequest) (*jobsv1.Job, error) {
	j, err := s.mine(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	j, err = s.Mover.Resume(ctx, j.ID, func(ctx context.Context, tx pgx.Tx) error {
		return s.Trail.Record(ctx, tx, "job.resume", job.SubjectKind, j.ID, map[string]any{"attempt": j.Attempt})
	})
	if err != nil {
		return nil, err
	}
	return moved(ctx, j)
}
