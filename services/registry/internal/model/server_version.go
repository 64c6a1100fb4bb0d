package model

import (
	"bytes"
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protowire"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
)

// CreateModelVersion registers an artifact or uploaded files as a version. If the model already has a version with the
// same bytes, it returns that version.
func (s *Server) CreateModelVersion(ctx context.Context, in *registryv1.CreateModelVersionRequest) (*registryv1.ModelVersion, error) {
	out := &registryv1.ModelVersion{}
	if done, err := s.Once.Replay(ctx, registryv1.ModelService_CreateModelVersion_FullMethodName, in, out); err != nil {
		return nil, err
	} else if done {
		return out, restoreStatus(ctx, out)
	}
	m, err := s.get(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	if err := m.Require(authn.ScopeOf(ctx), SubjectKind, m.ID); err != nil {
		return nil, err
	}
	v, err := s.wanted(ctx, m, in)
	if err != nil {
		return nil, err
	}
	err = s.Once.Do(ctx, registryv1.ModelService_CreateModelVersion_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		kept, fresh, err := s.Store.InsertVersion(ctx, tx, v)
		if err != nil {
			return err
		}
		idempotency.Set(out, versionToProto(m, kept))
		if !fresh {
			out.ProtoReflect().SetUnknown(existed())
			return nil
		}
		return s.record(ctx, tx, "model.version.create", m.ID,
			event.Event{Type: "version", To: string(kept.Status), Message: kept.StatusReason}, out)
	})
	if err != nil {
		return nil, err
	}
	return out, restoreStatus(ctx, out)
}

// wanted returns the version that a request describes: the stored version with the same bytes, or a new one.
func (s *Server) wanted(ctx context.Context, m *Model, in *registryv1.CreateModelVersionRequest) (*Version, error) {
	switch {
	case in.GetSource() != nil && len(in.GetFiles()) > 0:
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "give either source or files, not both", "files"))
	case len(in.GetFiles()) > 0:
		return s.uploaded(ctx, m, in)
	case in.GetSource() == nil:
		return nil, fault.InvalidFields(fault.At(fault.TypeMissing, "Field required: source, or files that were uploaded", "source"))
	}
	a, from, err := s.artifact(ctx, in.GetSource().GetRunId(), in.GetSource().GetArtifactId())
	if err != nil {
		return nil, err
	}
	known, err := s.Store.ByDigest(ctx, s.Pool, m.ID, "sha256:"+a.SHA256)
	if err != nil || known != nil && known.Status == StatusReady {
		return known, err
	}
	base, err := s.base(ctx, a.Format, in.GetBase(), a.RunID)
	if err != nil {
		return nil, err
	}
	v, err := s.examine(ctx, m, a, from)
	if err != nil {
		return nil, err
	}
	v.Base = base
	return better(known, v), nil
}

// existedField is a field number that the message will never use. The stored response carries this field if the version
// existed before, so that a repeat gets the same status as the first call.
const existedField = 1000

func existed() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, existedField, protowire.VarintType), 1)
}

// restoreStatus removes existedField from a stored response, and sets status 200 if the response contained the field.
func restoreStatus(ctx context.Context, out *registryv1.ModelVersion) error {
	marked := bytes.Equal(out.ProtoReflect().GetUnknown(), existed())
	out.ProtoReflect().SetUnknown(nil)
	if !marked {
		return nil
	}
	return request.SetStatus(ctx, http.StatusOK)
}

// ListModelVersions returns the versions of a model, newest first.
func (s *Server) ListModelVersions(ctx context.Context, in *registryv1.ListModelVersionsRequest) (*registryv1.ListModelVersionsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	m, err := s.get(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Versions(ctx, s.Pool, m.ID, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListModelVersionsResponse{}
	for _, v := range found {
		out.Versions = append(out.Versions, versionToProto(m, v))
	}
	return out, request.SetMore(ctx, more)
}

// GetModelVersion returns one version.
func (s *Server) GetModelVersion(ctx context.Context, in *registryv1.GetModelVersionRequest) (*registryv1.ModelVersion, error) {
	m, err := s.get(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, m.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	return versionToProto(m, v), nil
}

// ListModelDownloads returns the files of a version, each with a signed URL. The weights of a protected run may contain
// records, so it refuses their download to everyone and records the refusal in the audit log.
func (s *Server) ListModelDownloads(ctx context.Context, in *registryv1.ListModelDownloadsRequest) (*registryv1.ListModelDownloadsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	m, v, err := s.version(ctx, in.GetModelId(), in.GetVersion())
	if err != nil {
		return nil, err
	}
	if v.Protected {
		return nil, s.refuseDownload(ctx, m, v)
	}
	objects, more := request.CutPage(pageOf(v, p), p)
	out := &registryv1.ListModelDownloadsResponse{}
	for _, o := range objects {
		key, ok := blob.ParseURI(o.GetUri())
		if !ok {
			return nil, notStored()
		}
		one, err := dataset.Download(ctx, s.Blobs, o.GetPath(), blob.Info{Key: key, Size: o.GetSizeBytes(), SHA256: o.GetSha256()})
		if err != nil {
			return nil, err
		}
		out.Files = append(out.Files, one)
	}
	return out, request.SetMore(ctx, more)
}

// refuseDownload returns the error for the download of a protected version.
func (s *Server) refuseDownload(ctx context.Context, m *Model, v *Version) error {
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		return s.audit(ctx, tx, "model.access.refuse", m.ID, map[string]any{"version": v.Number, "what": "download"})
	})
	if err != nil {
		return err
	}
	return fault.New(fault.Forbidden, dataset.CodeProtected,
		"version %d of model %s comes from a protected run: it can be deployed, but not downloaded", v.Number, m.Name)
}
