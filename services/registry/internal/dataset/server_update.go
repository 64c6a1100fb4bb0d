package dataset

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/emptypb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Protections protects the unfinished runs of a dataset that the transaction tx protects.
type Protections interface {
	Protect(ctx context.Context, tx pgx.Tx, datasetID, ref string) error
}

// UpdateDataset changes the description of a dataset or protects it. Protection cannot be removed, because that would
// expose data that was uploaded on the promise of protection.
func (s *Server) UpdateDataset(ctx context.Context, in *registryv1.UpdateDatasetRequest) (*registryv1.Dataset, error) {
	d, err := s.editable(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	if d.Protected && in.Protected != nil && !in.GetProtected() {
		return nil, fault.New(fault.Conflict, CodeProtected, "dataset %s is protected; protection cannot be removed", d.Name)
	}
	if in.Description == nil && (in.Protected == nil || in.GetProtected() == d.Protected) {
		return ToProto(d), nil
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		was := d.Protected
		if d, err = s.Store.Update(ctx, tx, d.ID, in.Description, in.GetProtected()); err != nil {
			return err
		}
		if d.Protected && !was {
			if err := s.Protections.Protect(ctx, tx, d.ID, "ds/"+d.Project+"/"+d.Name); err != nil {
				return err
			}
		}
		return s.record(ctx, tx, "dataset.update", d.ID, event.Event{Type: "updated"},
			map[string]any{"description": d.Description, "protected": d.Protected})
	})
	if err != nil {
		return nil, err
	}
	return ToProto(d), nil
}

// ArchiveDatasetVersion takes a ready version out of use. A repeated call returns the archived version.
func (s *Server) ArchiveDatasetVersion(
	ctx context.Context, in *registryv1.ArchiveDatasetVersionRequest,
) (*registryv1.DatasetVersion, error) {
	d, err := s.editable(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, d.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		done, err := s.Store.Archive(ctx, tx, v, s.Clock.Now())
		if err != nil || !done {
			return err
		}
		return s.record(ctx, tx, "dataset.version.archive", d.ID,
			event.Event{Type: "version", From: string(StateReady), To: string(StateArchived), Message: v.Version},
			map[string]any{"version": v.Version, "digest": v.Digest})
	})
	if err != nil {
		return nil, err
	}
	if v, err = s.Store.Version(ctx, s.Pool, d.ID, v.Version); err != nil {
		return nil, err
	}
	if v.State != StateArchived {
		return nil, notReady(d, v)
	}
	return versionToProto(d, v), nil
}

// DeleteDatasetVersion deletes a version that is still uploading. Its objects are deleted later, because no row refers to
// them.
func (s *Server) DeleteDatasetVersion(ctx context.Context, in *registryv1.DeleteDatasetVersionRequest) (*emptypb.Empty, error) {
	d, err := s.editable(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, d.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		done, err := s.Store.Delete(ctx, tx, v.ID)
		if err != nil {
			return err
		}
		if !done {
			return s.kept(ctx, tx, d, v)
		}
		return s.record(ctx, tx, "dataset.version.delete", d.ID,
			event.Event{Type: "version", From: string(StateUploading), To: "deleted", Message: v.Version},
			map[string]any{"version": v.Version, "digest": v.Digest})
	})
}

// kept returns why a version was not deleted: another request has committed, replaced or deleted it.
func (s *Server) kept(ctx context.Context, tx pgx.Tx, d *Dataset, v *Version) error {
	now, err := s.Store.head(ctx, tx, d.ID, v.Version)
	switch {
	case err != nil:
		return err
	case now.State == StateUploading:
		return fault.New(fault.Conflict, "dataset_version_state",
			"another upload has replaced version %s of dataset %s meanwhile; repeat the request to delete that one", v.Version, d.Name)
	}
	return fault.New(fault.Conflict, "dataset_version_state",
		"version %s of dataset %s is committed and cannot be deleted; archive it instead", v.Version, d.Name)
}

func notReady(d *Dataset, v *Version) error {
	return fault.New(fault.Conflict, "dataset_version_state", "version %s of dataset %s is %s", v.Version, d.Name, v.State)
}
