package model

import (
	"context"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
)

// SignModelUploads returns the uploads that a version of the given files still needs.
func (s *Server) SignModelUploads(ctx context.Context, in *registryv1.SignModelUploadsRequest) (*registryv1.SignModelUploadsResponse, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	u, err := uploadOf(ctx, manifest.FromProto(in.GetFiles()), s.MaxBytes, in.GetAllowPickle())
	if err != nil {
		return nil, err
	}
	o := s.objects(m)
	if err := db.HoldObjects(ctx, s.Pool, s.HoldFor, u.keys(o)...); err != nil {
		return nil, err
	}
	out := &registryv1.SignModelUploadsResponse{Format: u.format}
	out.Uploads, err = o.Targets(ctx, u.files, 0)
	return out, err
}

// uploaded returns the version of the uploaded files of a request: the stored version with the same bytes, or a new one.
// It holds the objects, so that they are not deleted before the version refers to them.
func (s *Server) uploaded(ctx context.Context, m *Model, in *registryv1.CreateModelVersionRequest) (*Version, error) {
	u, err := uploadOf(ctx, manifest.FromProto(in.GetFiles()), s.MaxBytes, in.GetAllowPickle())
	if err != nil {
		return nil, err
	}
	base, err := s.base(ctx, u.format, in.GetBase(), "")
	if err != nil {
		return nil, err
	}
	known, err := s.Store.ByDigest(ctx, s.Pool, m.ID, u.digest)
	if err != nil || known != nil && known.Status == StatusReady {
		return known, err
	}
	o := s.objects(m)
	if err := db.HoldObjects(ctx, s.Pool, s.HoldFor, u.keys(o)...); err != nil {
		return nil, err
	}
	if err := o.Verify(ctx, u.files); err != nil {
		return nil, err
	}
	v, err := s.inspect(ctx, m, u)
	if err != nil {
		return nil, err
	}
	if base == nil && u.base != "" {
		// The recipes write the reference of the base into the configuration; other trainings write a name or a path.
		if base, err = s.base(ctx, u.format, u.base, ""); fault.Is(err, fault.Refused) {
			base, err = nil, nil
		}
	}
	v.Base = base
	return better(known, v), err
}

// better returns the version to keep of two with the same bytes: a rejected version that is stored, or a new one. It returns
// the new one if it is ready, because the bytes may have had another name when they were rejected, or if known is nil.
func better(known, v *Version) *Version {
	if known != nil && v.Status == StatusRejected {
		return known
	}
	return v
}
