package ingest

import (
	"context"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	ingestrun "github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// owner fetches the owner of a run from the jobs service, given the id of the run or of its job.
func (s *Service) owner(ctx context.Context, id string, readable bool) (*ingestrun.Owner, error) {
	o, err := s.deps.Runs.GetRunOwner(ctx, &jobspeerv1.GetRunOwnerRequest{Id: id, Readable: readable})
	if err != nil {
		return nil, err
	}
	return ownerOf(o), nil
}

func ownerOf(o *jobspeerv1.RunOwner) *ingestrun.Owner {
	return &ingestrun.Owner{
		RunID: o.GetRunId(), JobID: o.GetJobId(), OwnerID: o.GetOwnerId(), ProjectID: o.GetProjectId(),
		Project: o.GetProject(), Visibility: o.GetVisibility(), VisibilityVersion: o.GetVisibilityVersion(),
		Goals: o.GetGoals(),
	}
}

// grant fetches the grant of an ingest token from the jobs service. It also stores the run's row, to which all reported
// data refers.
func (s *Service) grant(ctx context.Context, hash []byte) (*ingesttoken.Grant, error) {
	g, err := s.deps.Runs.ResolveIngestToken(ctx, &jobspeerv1.ResolveIngestTokenRequest{TokenHash: hash})
	if err != nil {
		return nil, err
	}
	out := &ingesttoken.Grant{
		Owner: *ownerOf(g.GetOwner()), Attempt: g.GetAttempt(), Container: g.GetContainer(), Current: g.GetCurrent(), Withhold: disclosureOf(g),
		ResumeStep: g.ResumeStep, Keeping: keepingOf(g.GetKeeping()),
	}
	out.Owner.RunID, out.Owner.JobID = g.GetRunId(), g.GetJobId()
	out.EndedAt, out.ExpiresAt = request.TimeOf(g.GetEndedAt()), request.TimeOrZero(g.GetExpiresAt())
	return out, s.rows.Upsert(ctx, &out.Owner)
}

// keepingOf returns which checkpoints of a run are kept, or nil if all are.
func keepingOf(k *jobspeerv1.CheckpointKeeping) *artifact.Keeping {
	if k.GetLast() < 1 {
		return nil
	}
	return &artifact.Keeping{Last: int(k.GetLast()), Best: k.GetBest(), Maximize: k.GetMaximize()}
}

// disclosureOf returns what a protected run may report, or nil if the run is not protected.
func disclosureOf(g *jobspeerv1.IngestGrant) *report.Disclosure {
	if !g.GetWithhold() {
		return nil
	}
	d := &report.Disclosure{Metrics: g.GetDisclosure().GetMetrics(), Params: map[string][]string{}, Formats: g.GetDisclosure().GetFormats()}
	for _, p := range g.GetDisclosure().GetParams() {
		d.Params[p.GetKey()] = p.GetValues()
	}
	return d
}
