package deployment

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// CreateRevision creates a candidate, which is a revision that is not promoted, and orders its engine.
func (s *Server) CreateRevision(ctx context.Context, in *registryv1.CreateRevisionRequest) (*registryv1.Revision, error) {
	out := &registryv1.Revision{}
	if done, err := s.Once.Replay(ctx, registryv1.DeploymentService_CreateRevision_FullMethodName, in, out); done || err != nil {
		return out, err
	}
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	m, v, err := Source(ctx, s.Pool, s.Models, in.GetSource())
	if err != nil {
		return nil, err
	}
	r, err := Candidate(s.IDs, s.Clock.Now(), s.Probe, d, m, v, revision.ServingFromProto(in.GetServing()))
	if err != nil {
		return nil, err
	}
	if err := s.Pools.Check(ctx, r.Serving.Pool); err != nil {
		return nil, err
	}
	err = s.Once.Do(ctx, registryv1.DeploymentService_CreateRevision_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Changer.CreateRevision(ctx, tx, r); err != nil {
			return err
		}
		idempotency.Set(out, revision.ToProto(r))
		return nil
	})
	return out, err
}

// Source returns the model version that a request refers to. A model that the caller may not see gives the same error
// as a missing one.
func Source(ctx context.Context, q pg.Querier, models model.Store, in *registryv1.RevisionSource) (*model.Model, *model.Version, error) {
	if err := request.ID(id.Model, "model_id", in.GetModelId()); err != nil {
		return nil, nil, fault.From(err).Under("source")
	}
	m, err := models.Get(ctx, q, authn.ScopeOf(ctx), in.GetModelId())
	var v *model.Version
	if err == nil {
		v, err = models.Version(ctx, q, m.ID, in.GetVersion())
	}
	if fault.Is(err, fault.Absent) {
		return nil, nil, fault.New(fault.Refused, "source", "no such model version: version %d of %s", in.GetVersion(), in.GetModelId())
	}
	if err != nil {
		return nil, nil, err
	}
	return m, v, v.CheckUse(ctx, q)
}

// Candidate returns a new revision of a deployment that serves a version of a model.
func Candidate(ids *id.Source, now time.Time, probe time.Duration, d *Deployment, m *model.Model, v *model.Version, s revision.Serving) (*revision.Revision, error) {
	s = s.WithDefaults(v.Format)
	if err := s.Check(v, m.Task); err != nil {
		return nil, err
	}
	first, more := revision.Files(v)
	r := &revision.Revision{
		ID: ids.New(id.Revision), DeploymentID: d.ID, State: revision.Pending, Wanted: true, Generation: 1,
		Reason: revision.Placing(s.Pool),
		Source: revision.Source{ModelID: m.ID, Version: v.Number}, Serving: s, WorkID: ids.New(id.Work), CreatedAt: now,
		Plan: revision.Plan{
			Model: first, More: more, ModelDigest: v.Digest, ServedNames: servedNames(d), Task: m.Task, ProbeS: int32(probe.Seconds()),
			OwnerID: d.UserID, ProjectID: d.ProjectID, Protected: v.Protected,
		},
	}
	var err error
	r.ServingDigest, err = revision.Digest(r.Source, v.Digest, s)
	return r, err
}

// defaultName is a model name that callers may use on every deployment.
const defaultName = "default"

// servedNames returns the model names that a deployment's engine accepts.
func servedNames(d *Deployment) []string {
	return slices.Compact([]string{defaultName, d.Name})
}

// ListRevisions returns the revisions of a deployment, newest first.
func (s *Server) ListRevisions(ctx context.Context, in *registryv1.ListRevisionsRequest) (*registryv1.ListRevisionsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	d, err := s.get(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	found, err := s.Revisions.List(ctx, s.Pool, d.ID, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListRevisionsResponse{}
	for _, r := range found {
		out.Revisions = append(out.Revisions, revision.ToProto(r))
	}
	return out, request.SetMore(ctx, more)
}

// GetRevision returns one revision.
func (s *Server) GetRevision(ctx context.Context, in *registryv1.GetRevisionRequest) (*registryv1.Revision, error) {
	d, err := s.get(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	r, err := s.Revisions.Get(ctx, s.Pool, d.ID, in.GetNumber())
	if err != nil {
		return nil, err
	}
	return revision.ToProto(r), nil
}

// PromoteRevision makes a ready revision the serving one.
func (s *Server) PromoteRevision(ctx context.Context, in *registryv1.PromoteRevisionRequest) (*registryv1.Deployment, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	if d, err = s.Changer.Promote(ctx, d.ID, in.GetNumber()); err != nil {
		return nil, err
	}
	return s.switched(ctx, d)
}

// StartRevision orders a new engine for a revision that was stopped or has failed.
func (s *Server) StartRevision(ctx context.Context, in *registryv1.StartRevisionRequest) (*registryv1.Revision, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	r, err := s.Revisions.Get(ctx, s.Pool, d.ID, in.GetNumber())
	if err != nil {
		return nil, err
	}
	if r.Finished() { // Start refuses revisions that are not finished
		if err := s.Pools.Check(ctx, r.Serving.Pool); err != nil {
			return nil, err
		}
	}
	r, err = s.Changer.Start(ctx, d.ID, in.GetNumber())
	if err != nil {
		return nil, err
	}
	return revision.ToProto(r), nil
}

// StopRevision ends the engine of a revision that is not promoted or whose deployment is suspended.
func (s *Server) StopRevision(ctx context.Context, in *registryv1.StopRevisionRequest) (*registryv1.Revision, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	r, err := s.Changer.Stop(ctx, d.ID, in.GetNumber())
	if err != nil {
		return nil, err
	}
	return revision.ToProto(r), nil
}
