package dataset

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

// Server implements DatasetService.
type Server struct {
	registryv1.UnimplementedDatasetServiceServer

	Pool     *pgxpool.Pool
	Store    Store
	Projects access.Projects
	Blobs    blob.Store
	Once     *idempotency.Once
	Events   *event.Log
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	// MaxBytes is the maximum size of one file.
	MaxBytes    int64
	Packer      *Packer
	Protections Protections
}

// CreateDataset creates a dataset without versions.
func (s *Server) CreateDataset(ctx context.Context, in *registryv1.CreateDatasetRequest) (*registryv1.Dataset, error) {
	out := &registryv1.Dataset{}
	if done, err := s.Once.Replay(ctx, registryv1.DatasetService_CreateDataset_FullMethodName, in, out); done || err != nil {
		return out, err
	}
	owner, err := access.OwnerFor(ctx, s.Projects, in.GetProject())
	if err != nil {
		return nil, err
	}
	d := &Dataset{
		Owner: owner, ID: s.IDs.New(id.Dataset), Name: in.GetName(), Description: in.GetDescription(),
		Format: in.GetFormat(), Protected: in.GetProtected(), CreatedAt: s.Clock.Now(),
	}
	if d.Format == "" {
		d.Format = DefaultFormat
	}
	err = s.Once.Do(ctx, registryv1.DatasetService_CreateDataset_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.Store.Insert(ctx, tx, d); err != nil {
			return err
		}
		idempotency.Set(out, ToProto(d))
		return s.record(ctx, tx, "dataset.create", d.ID, event.Event{Type: "created"}, out)
	})
	return out, err
}

// record writes the event and the audit entry of a change.
func (s *Server) record(ctx context.Context, tx pgx.Tx, action, datasetID string, e event.Event, after any) error {
	e.SubjectKind, e.SubjectID = SubjectKind, datasetID
	return db.RecordChange(ctx, tx, s.Events, s.Audit, action, e, after)
}

// ListDatasets lists the datasets visible to the caller, newest first.
func (s *Server) ListDatasets(ctx context.Context, in *registryv1.ListDatasetsRequest) (*registryv1.ListDatasetsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, authn.ScopeOf(ctx), access.Filter{Name: in.GetName(), Project: in.GetProject(), Text: in.GetQ()}, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListDatasetsResponse{}
	for _, d := range found {
		out.Datasets = append(out.Datasets, ToProto(d))
	}
	return out, request.SetMore(ctx, more)
}

// GetDataset returns one dataset.
func (s *Server) GetDataset(ctx context.Context, in *registryv1.GetDatasetRequest) (*registryv1.Dataset, error) {
	d, err := s.get(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	return ToProto(d), nil
}

func (s *Server) get(ctx context.Context, datasetID string) (*Dataset, error) {
	if err := request.ID(id.Dataset, "dataset_id", datasetID); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), datasetID)
}

// editable returns a dataset, or an error if the caller must not change it.
func (s *Server) editable(ctx context.Context, datasetID string) (*Dataset, error) {
	d, err := s.get(ctx, datasetID)
	if err != nil {
		return nil, err
	}
	return d, d.Require(authn.ScopeOf(ctx), SubjectKind, d.ID)
}

// ListDatasetVersions lists the versions of a dataset without their manifests, newest first.
func (s *Server) ListDatasetVersions(
	ctx context.Context, in *registryv1.ListDatasetVersionsRequest,
) (*registryv1.ListDatasetVersionsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	d, err := s.get(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Versions(ctx, s.Pool, d.ID, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListDatasetVersionsResponse{}
	for _, v := range found {
		out.Versions = append(out.Versions, versionToProto(d, v))
	}
	return out, request.SetMore(ctx, more)
}

// GetDatasetVersion returns one version with its manifest.
func (s *Server) GetDatasetVersion(ctx context.Context, in *registryv1.GetDatasetVersionRequest) (*registryv1.DatasetVersion, error) {
	d, err := s.get(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, d.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	return versionToProto(d, v), nil
}
