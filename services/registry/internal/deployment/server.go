package deployment

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/emptypb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// Replicas waits until the replicas of inference have applied a change.
type Replicas interface {
	Await(ctx context.Context, epoch int64) error
	Settle(ctx context.Context) error
}

// Pools refuses pools in which no node may run engines.
type Pools interface {
	// Check returns nil if the pool has or may get a node that may run engines, and otherwise the refusal.
	Check(ctx context.Context, pool string) error
}

// Server implements DeploymentService.
type Server struct {
	registryv1.UnimplementedDeploymentServiceServer

	Pool      *pgxpool.Pool
	Changer   *Changer
	Store     *Store
	Revisions *revision.Store
	Tokens    deploytoken.Store
	Models    model.Store
	Projects  access.Projects
	Replicas  Replicas
	Pools     Pools
	Once      *idempotency.Once
	Clock     clock.Clock
	IDs       *id.Source
	Rand      io.Reader
	// Probe is how long an engine may take to become ready.
	Probe time.Duration
	// PublicURL returns the public address of the installation.
	PublicURL func() string
}

// CreateDeployment creates a deployment without a promoted revision.
func (s *Server) CreateDeployment(ctx context.Context, in *registryv1.CreateDeploymentRequest) (*registryv1.Deployment, error) {
	out := &registryv1.Deployment{}
	if done, err := s.Once.Replay(ctx, registryv1.DeploymentService_CreateDeployment_FullMethodName, in, out); done || err != nil {
		return out, err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return nil, err
	}
	d := &Deployment{Owner: owner, ID: s.IDs.New(id.Deployment), Name: in.GetName(), Description: in.GetDescription(), State: StateServing, CreatedAt: s.Clock.Now()}
	err = s.Once.Do(ctx, registryv1.DeploymentService_CreateDeployment_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Changer.Create(ctx, tx, d); err != nil {
			return err
		}
		idempotency.Set(out, s.toProto(d))
		return nil
	})
	return out, err
}

// ListDeployments returns the deployments that are visible to the caller, newest first.
func (s *Server) ListDeployments(ctx context.Context, in *registryv1.ListDeploymentsRequest) (*registryv1.ListDeploymentsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, authn.ScopeOf(ctx), access.Filter{Project: in.GetProject(), Text: in.GetQ()}, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListDeploymentsResponse{}
	for _, d := range found {
		out.Deployments = append(out.Deployments, s.toProto(d))
	}
	return out, request.SetMore(ctx, more)
}

// GetDeployment returns one deployment.
func (s *Server) GetDeployment(ctx context.Context, in *registryv1.GetDeploymentRequest) (*registryv1.Deployment, error) {
	d, err := s.get(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	return s.withETag(ctx, d)
}

// withETag converts a deployment for the API and sets its version as the ETag, for use with If-Match.
func (s *Server) withETag(ctx context.Context, d *Deployment) (*registryv1.Deployment, error) {
	return s.toProto(d), request.SetETag(ctx, d.Version)
}

func (s *Server) get(ctx context.Context, deploymentID string) (*Deployment, error) {
	if err := request.ID(id.Deployment, "deployment_id", deploymentID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), deploymentID)
}

// editable returns a deployment if the caller may change it.
func (s *Server) editable(ctx context.Context, deploymentID string) (*Deployment, error) {
	d, err := s.get(ctx, deploymentID)
	if err != nil {
		return nil, err
	}
	return d, d.Require(authn.ScopeOf(ctx), SubjectKind, d.ID)
}

// ListDeploymentEvents returns the events of a deployment and its revisions, oldest first.
func (s *Server) ListDeploymentEvents(
	ctx context.Context, in *registryv1.ListDeploymentEventsRequest,
) (*registryv1.ListDeploymentEventsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	d, err := s.get(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	found, err := event.ListAfter(ctx, s.Pool, SubjectKind, d.ID, in.GetAfter(), request.Page{Limit: p.FetchLimit(), Offset: p.Offset})
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListDeploymentEventsResponse{}
	for _, e := range found {
		out.Events = append(out.Events, eventToProto(e))
	}
	return out, request.SetNextAfter(ctx, more, found, func(e *event.Event) string { return strconv.FormatInt(e.Seq, 10) })
}

// UpdateDeployment changes the description of a deployment.
func (s *Server) UpdateDeployment(ctx context.Context, in *registryv1.UpdateDeploymentRequest) (*registryv1.Deployment, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	description := d.Description
	if in.Description != nil {
		description = in.GetDescription()
	}
	if d, err = s.Changer.Describe(ctx, d.ID, description); err != nil {
		return nil, err
	}
	return s.withETag(ctx, d)
}

// DeleteDeployment deletes a deployment. It returns when no replica of inference that may still serve knows the
// deployment.
func (s *Server) DeleteDeployment(ctx context.Context, in *registryv1.DeleteDeploymentRequest) (*emptypb.Empty, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	from, err := s.Changer.Delete(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.Replicas.Await(ctx, from)
}

// SuspendDeployment suspends a deployment. It returns when every replica of inference that may still serve rejects the
// deployment's calls.
func (s *Server) SuspendDeployment(ctx context.Context, in *registryv1.SuspendDeploymentRequest) (*registryv1.Deployment, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	mode := in.GetMode()
	if mode == "" {
		mode = ModeDrain
	}
	d, from, err := s.Changer.Suspend(ctx, d.ID, mode)
	if err != nil {
		return nil, err
	}
	if err := s.Replicas.Await(ctx, from); err != nil {
		return nil, err
	}
	return s.withETag(ctx, d)
}

// ResumeDeployment makes a suspended deployment accept calls again.
func (s *Server) ResumeDeployment(ctx context.Context, in *registryv1.ResumeDeploymentRequest) (*registryv1.Deployment, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	if d, err = s.Changer.Resume(ctx, d.ID); err != nil {
		return nil, err
	}
	return s.switched(ctx, d)
}

// RollbackDeployment promotes a formerly promoted revision again. The status is 202 if that revision must start first.
func (s *Server) RollbackDeployment(ctx context.Context, in *registryv1.RollbackDeploymentRequest) (*registryv1.Deployment, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	if d, err = s.Changer.Rollback(ctx, d.ID, in.ToRevision, in.GetStart()); err != nil {
		return nil, err
	}
	if d.PendingID != nil {
		if err := request.SetStatus(ctx, http.StatusAccepted); err != nil {
			return nil, err
		}
	}
	return s.switched(ctx, d)
}

// switched waits briefly for the replicas to apply the change, then returns the deployment.
func (s *Server) switched(ctx context.Context, d *Deployment) (*registryv1.Deployment, error) {
	if err := s.Replicas.Settle(ctx); err != nil {
		return nil, err
	}
	return s.withETag(ctx, d)
}
