package jobapi

import (
	"context"

	"github.com/jackc/pgx/v5"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
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
