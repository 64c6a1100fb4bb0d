package environment

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// SignEnvironmentUpload returns an upload URL for a package or a taskset.
func (s *Server) SignEnvironmentUpload(
	ctx context.Context, in *registryv1.SignEnvironmentUploadRequest,
) (*registryv1.EnvironmentUpload, error) {
	e, err := s.editable(ctx, in.GetEnvironmentId())
	if err != nil {
		return nil, err
	}
	key, limit := PackageKey(e.ProjectID, in.GetSha256()), s.MaxBytes
	if in.GetKind() == UploadTaskset {
		key, limit = TasksetKey(e.ProjectID, in.GetSha256()), min(s.MaxBytes, MaxTaskset)
	}
	if in.GetSizeBytes() > limit {
		return nil, fault.New(fault.TooLarge, "upload_too_large", "the %s exceeds the limit of %d MiB", in.GetKind(), limit>>20)
	}
	if err := db.HoldObjects(ctx, s.Pool, s.HoldFor, key); err != nil {
		return nil, err
	}
	signed, err := s.Blobs.SignPut(ctx, key, blob.SignOptions{Size: in.GetSizeBytes(), SHA256: in.GetSha256()})
	if err != nil {
		return nil, fmt.Errorf("sign an upload: %w", err)
	}
	return &registryv1.EnvironmentUpload{
		Kind: in.GetKind(), Url: signed.URL, Method: signed.Method, Headers: signed.Headers, ExpiresAt: timestamppb.New(signed.ExpiresAt),
	}, nil
}

// wanted returns the version that a request describes. The state of the version is validating if its bytes are already
// uploaded, otherwise uploading.
func (s *Server) wanted(ctx context.Context, e *Environment, in *registryv1.CreateEnvironmentVersionRequest) (*Version, error) {
	if err := ref.CheckVersionName(in.GetVersion()); err != nil {
		return nil, err
	}
	manifest, err := manifestFromProto(in.GetManifest())
	if err != nil {
		return nil, err
	}
	v := &Version{
		ID: s.IDs.New(id.EnvironmentVersion), EnvironmentID: e.ID, Version: in.GetVersion(), State: StateUploading, Manifest: manifest,
		Package: packageFromProto(in.GetPackage()), CreatorID: authn.CallerOf(ctx).Subject, CreatedAt: s.Clock.Now(),
	}
	if v.Digest, err = Digest(manifest, v.Package); err != nil {
		return nil, err
	}
	uploaded, err := s.uploaded(ctx, e, v)
	if uploaded {
		v.State = StateValidating
	}
	return v, err
}

// uploaded reports whether the taskset and the package of a version are in the object store. It also holds these
// objects, so that they are not deleted before the version refers to them.
func (s *Server) uploaded(ctx context.Context, e *Environment, v *Version) (bool, error) {
	t, err := v.Taskset()
	if err != nil {
		return false, err
	}
	taskset := TasksetKey(e.ProjectID, strings.TrimPrefix(t.Digest, "sha256:"))
	keys := []string{taskset}
	if v.Package.SHA256 != "" {
		keys = append(keys, PackageKey(e.ProjectID, v.Package.SHA256))
	}
	if err := db.HoldObjects(ctx, s.Pool, s.HoldFor, keys...); err != nil {
		return false, err
	}
	_, err = s.Blobs.Stat(ctx, taskset)
	if err == nil && v.Package.SHA256 != "" {
		var info blob.Info
		info, err = s.Blobs.Stat(ctx, PackageKey(e.ProjectID, v.Package.SHA256))
		if err == nil && info.Size != v.Package.Size {
			return false, fault.New(fault.Refused, "object_differs", "the package has %d bytes; the version states %d", info.Size, v.Package.Size)
		}
	}
	if fault.Is(err, fault.Absent) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the objects of an environment: %w", err)
	}
	return true, nil
}

// register stores a new version, or continues the upload of an existing version with the same content. The result fresh
// is false for an existing version.
func (s *Server) register(ctx context.Context, tx pgx.Tx, e *Environment, v *Version) (kept *Version, fresh bool, err error) {
	t, err := v.Taskset()
	if err != nil {
		return nil, false, err
	}
	fresh, err = s.Store.InsertVersion(ctx, tx, v, strings.TrimPrefix(t.Digest, "sha256:"), v.CreatedAt.Add(-blob.MaxExpires))
	if err != nil {
		return nil, false, err
	}
	if kept = v; !fresh {
		if kept, err = s.Store.Version(ctx, tx, e.ID, v.Version); err != nil {
			return nil, false, err
		}
		if kept.Digest != v.Digest {
			return nil, false, fault.New(fault.Conflict, "environment_version_exists", "version %s of environment %s already exists with other content", v.Version, e.Name)
		}
		if v.State != StateValidating {
			return kept, false, nil
		}
		begun, err := s.Store.Begin(ctx, tx, kept)
		if err != nil || !begun {
			return kept, false, err
		}
		kept.State = StateValidating
	}
	if kept.State == StateValidating {
		if err := s.Queue.Validate(ctx, tx, kept.ID); err != nil {
			return nil, false, err
		}
	}
	return kept, fresh, s.record(ctx, tx, "environment.version.create", e.ID, event.Event{Type: "version", To: string(kept.State), Message: kept.Version},
		map[string]any{"version": kept.Version, "digest": kept.Digest, "taskset_digest": t.Digest, "taskset_count": t.Count})
}
