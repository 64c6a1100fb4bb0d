package dataset

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// CreateDatasetVersion stores a manifest and returns upload URLs for its missing objects. While the version is
// uploading, its creator may repeat the request: with the same manifest, the response has new URLs; another manifest
// replaces the version. Other users can take over the name once the last URLs have expired.
func (s *Server) CreateDatasetVersion(
	ctx context.Context, in *registryv1.CreateDatasetVersionRequest,
) (*registryv1.CreateDatasetVersionResponse, error) {
	d, err := s.editable(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	if err := ref.CheckVersionName(in.GetVersion()); err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	v := &Version{
		ID: s.IDs.New(id.DatasetVersion), DatasetID: d.ID, Version: in.GetVersion(), State: StateUploading,
		CreatorID: authn.CallerOf(ctx).Subject, CreatedAt: now, UploadUntil: now.Add(blob.MaxExpires),
		Isolated: d.Protected,
	}
	if v.Manifest, v.Digest, v.Bytes, err = manifest.New(manifest.FromProto(in.GetFiles()), s.MaxBytes, "split it"); err != nil {
		return nil, s.existsFirst(ctx, d, v.Version, err)
	}
	v.Count = len(v.Manifest)
	if v.Schema, v.SchemaSource, err = declared(in.GetSchema()); err != nil {
		return nil, err
	}
	kept := &registryv1.DatasetVersion{}
	again := false
	err = s.Once.Do(ctx, registryv1.DatasetService_CreateDatasetVersion_FullMethodName, in, kept, func(ctx context.Context, tx pgx.Tx) error {
		how, err := s.Store.InsertVersion(ctx, tx, v)
		if err != nil {
			return err
		}
		if again = how == ClaimedNot; again {
			v, err = s.resumable(ctx, tx, d, v)
			idempotency.Set(kept, versionToProto(d, v))
			return err
		}
		idempotency.Set(kept, versionToProto(d, v))
		e := event.Event{Type: "version", To: string(v.State), Message: v.Version}
		switch how {
		case ClaimedAbandoned:
			e.From, e.Reason = string(StateUploading), reasonLeft
		case ClaimedOwn:
			e.From, e.Reason = string(StateUploading), reasonReplaced
		case ClaimedNew, ClaimedNot:
		}
		return s.record(ctx, tx, "dataset.version.create", d.ID, e, map[string]any{"version": v.Version, "digest": v.Digest, "bytes": v.Bytes})
	})
	if err != nil {
		return nil, err
	}
	uploads, err := s.objects(d, v).Targets(ctx, v.Manifest, proto.Size(kept))
	if err != nil {
		return nil, err
	}
	out := &registryv1.CreateDatasetVersionResponse{Version: kept, Uploads: uploads}
	if again {
		return out, request.SetStatus(ctx, http.StatusOK)
	}
	return out, nil
}

// existsFirst returns a conflict if the version exists and is committed. Otherwise it returns the error wrong, which
// describes a defect in the manifest of the request.
func (s *Server) existsFirst(ctx context.Context, d *Dataset, version string, wrong error) error {
	v, err := s.Store.Version(ctx, s.Pool, d.ID, version)
	if err == nil && v.State != StateUploading {
		return exists(d, v)
	}
	return wrong
}

func exists(d *Dataset, v *Version) error {
	return fault.New(fault.Conflict, "dataset_version_exists", "version %s of dataset %s already exists", v.Version, d.Name)
}

// reasonLeft is the event reason for an abandoned upload that is replaced because its URLs have expired, and
// reasonReplaced for an upload that its creator replaces.
const (
	reasonLeft     = "upload_expired"
	reasonReplaced = "manifest_replaced"
)

// resumable returns the stored version and renews its upload if the request for want repeats the request that created
// the stored version. Otherwise it returns a conflict.
func (s *Server) resumable(ctx context.Context, tx pgx.Tx, d *Dataset, want *Version) (*Version, error) {
	v, err := s.Store.Version(ctx, tx, d.ID, want.Version)
	if err != nil {
		return want, err
	}
	if v.State != StateUploading || v.CreatorID != want.CreatorID || v.Digest != want.Digest {
		return v, exists(d, v)
	}
	renewed, err := s.Store.RenewUpload(ctx, tx, v.ID, want.UploadUntil)
	if err == nil && !renewed {
		err = exists(d, v)
	}
	return v, err
}

// CommitDatasetVersion makes a version ready if its objects match its manifest. A repeated call returns the version.
func (s *Server) CommitDatasetVersion(
	ctx context.Context, in *registryv1.CommitDatasetVersionRequest,
) (*registryv1.DatasetVersion, error) {
	d, err := s.editable(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, d.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	if in.GetDigest() != "" && in.GetDigest() != v.Digest {
		return nil, fault.New(fault.Conflict, "dataset_version_differs",
			"version %s of dataset %s has the digest %s, not %s: another upload has replaced its files", v.Version, d.Name, v.Digest, in.GetDigest())
	}
	switch v.State {
	case StateReady:
		return versionToProto(d, v), nil
	case StateArchived:
		return nil, notReady(d, v)
	case StateUploading:
	}
	if err := s.prepare(ctx, d, v); err != nil {
		return nil, err
	}
	if err := s.learn(ctx, d, v); err != nil {
		return nil, err
	}
	if err := s.commit(ctx, d, v); err != nil {
		return nil, err
	}
	kept, err := s.Store.Version(ctx, s.Pool, d.ID, v.Version)
	if err != nil {
		return nil, err
	}
	if kept.ID != v.ID {
		// The upload URLs had expired, and another upload has just taken over the name.
		return nil, exists(d, kept)
	}
	return versionToProto(d, kept), nil
}

// commit makes a verified version ready. It does nothing if a concurrent call has already made it ready.
func (s *Server) commit(ctx context.Context, d *Dataset, v *Version) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now := s.Clock.Now()
		v.CommittedAt = &now
		done, err := s.Store.Commit(ctx, tx, v)
		if err != nil || !done {
			return err
		}
		return s.record(ctx, tx, "dataset.version.commit", d.ID,
			event.Event{Type: "version", From: string(StateUploading), To: string(StateReady), Message: v.Version},
			map[string]any{"version": v.Version, "digest": v.Digest, "bytes": v.Bytes})
	})
}

// prepare packs the small files of a version. It returns an error unless all objects exist with the size and the digest
// in the manifest. The packs are saved before the remaining files are checked: if the request times out during the
// check, a repeated request need not build them again.
func (s *Server) prepare(ctx context.Context, d *Dataset, v *Version) error {
	if err := s.Store.LoadInputs(ctx, s.Pool, v, true); err != nil {
		return err
	}
	before := len(v.Packs)
	if err := s.Packer.Pack(ctx, d, v); err != nil {
		// Prefer the error that names a file whose upload is missing or differs.
		if wrong := s.objects(d, v).Verify(ctx, v.Alone); wrong != nil {
			return wrong
		}
		return err
	}
	if len(v.Packs) > before {
		if err := s.Store.SavePacks(ctx, s.Pool, v); err != nil {
			return err
		}
	}
	return s.objects(d, v).Verify(ctx, v.Alone)
}

// objects returns the objects of a version.
func (s *Server) objects(d *Dataset, v *Version) manifest.Objects {
	return manifest.Objects{Blobs: s.Blobs, Key: func(sum string) string { return v.key(d, sum) }}
}
