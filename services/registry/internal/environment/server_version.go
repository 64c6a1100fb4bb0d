package environment

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// CreateEnvironmentVersion registers a manifest and the bytes that it refers to. Registering the same content again
// returns the existing version and continues its upload. Other content under the same name is a conflict.
func (s *Server) CreateEnvironmentVersion(
	ctx context.Context, in *registryv1.CreateEnvironmentVersionRequest,
) (*registryv1.EnvironmentVersion, error) {
	e, err := s.editable(ctx, in.GetEnvironmentId())
	if err != nil {
		return nil, err
	}
	v, err := s.wanted(ctx, e, in)
	if err != nil {
		return nil, err
	}
	out := &registryv1.EnvironmentVersion{}
	err = s.Once.Do(ctx, registryv1.EnvironmentService_CreateEnvironmentVersion_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		kept, fresh, err := s.register(ctx, tx, e, v)
		if err != nil {
			return err
		}
		shown, err := versionToProto(e, kept)
		if err != nil {
			return err
		}
		idempotency.Set(out, shown)
		if !fresh {
			idempotency.MarkExisting(out)
		}
		return nil
	})
	if err == nil && idempotency.TakeExistingMark(out) {
		err = request.SetStatus(ctx, http.StatusOK)
	}
	return out, err
}

// DeprecateEnvironmentVersion takes a ready version out of use. A repeated call returns the deprecated version.
func (s *Server) DeprecateEnvironmentVersion(
	ctx context.Context, in *registryv1.DeprecateEnvironmentVersionRequest,
) (*registryv1.EnvironmentVersion, error) {
	e, err := s.editable(ctx, in.GetEnvironmentId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, e.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		done, err := s.Store.Deprecate(ctx, tx, v)
		if err != nil || !done {
			return err
		}
		return s.record(ctx, tx, "environment.version.deprecate", e.ID,
			event.Event{Type: "version", From: string(StateReady), To: string(StateDeprecated), Message: v.Version},
			map[string]any{"version": v.Version, "digest": v.Digest})
	})
	if err != nil {
		return nil, err
	}
	if v, err = s.Store.Version(ctx, s.Pool, e.ID, v.Version); err != nil {
		return nil, err
	}
	if v.State != StateDeprecated {
		return nil, fault.New(fault.Conflict, "environment_version_state", "version %s of environment %s is %s, not ready", v.Version, e.Name, v.State)
	}
	return versionToProto(e, v)
}

// ListEnvironmentVersions lists the versions of an environment, newest first.
func (s *Server) ListEnvironmentVersions(
	ctx context.Context, in *registryv1.ListEnvironmentVersionsRequest,
) (*registryv1.ListEnvironmentVersionsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	e, err := s.get(ctx, in.GetEnvironmentId())
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Versions(ctx, s.Pool, e.ID, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListEnvironmentVersionsResponse{}
	for _, v := range found {
		shown, err := versionToProto(e, v)
		if err != nil {
			return nil, err
		}
		out.Versions = append(out.Versions, shown)
	}
	return out, request.SetMore(ctx, more)
}

// GetEnvironmentVersion returns one version.
func (s *Server) GetEnvironmentVersion(ctx context.Context, in *registryv1.GetEnvironmentVersionRequest) (*registryv1.EnvironmentVersion, error) {
	e, err := s.get(ctx, in.GetEnvironmentId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, e.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	return versionToProto(e, v)
}
