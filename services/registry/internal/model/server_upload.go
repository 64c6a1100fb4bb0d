package model

import (
	"context"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
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
	v, err := s.Store.ByDigest(ctx, s.Pool, m.ID, u.digest)
	if err != nil || v != nil {
		return v, err
	}
	base, err := s.base(ctx, u.format, in.GetBase(), "")
	if err != nil {
		return nil, err
	}
	o := s.objects(m)
	if err := db.HoldObjects(ctx, s.Pool, s.HoldFor, u.keys(o)...); err != nil {
		return nil, err
	}
	if err := o.Verify(ctx, u.files); err != nil {
		return nil, err
	}
	if v, err = s.inspect(ctx, m, u); err != nil {
		return nil, err
	}
	v.Base = base
	return v, nil
}
