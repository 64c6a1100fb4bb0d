package model

import (
	"bytes"
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protowire"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// CreateModelVersion registers an artifact as a version. If the model already has a version with the same bytes, it
// returns that version.
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
	a, err := s.artifact(ctx, in.GetSource().GetRunId(), in.GetSource().GetArtifactId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.ByDigest(ctx, s.Pool, m.ID, "sha256:"+a.SHA256)
	if err == nil && v == nil {
		v, err = s.examine(ctx, m, a)
	}
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

// existedField is a field number that the message will never use. The stored response carries this field if the version
// existed before, so that a repeat gets the same status as the first call.
const existedField = 1000

func existed() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, existedField, protowire.VarintType), 1)
}

// restoreStatus removes the mark from a response and sets status 200 if the response was marked.
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
