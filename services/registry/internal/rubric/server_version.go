package rubric

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// CreateRubricVersion creates a draft. If a version with the same content exists, it returns that version.
func (s *Server) CreateRubricVersion(ctx context.Context, in *registryv1.CreateRubricVersionRequest) (*registryv1.RubricVersion, error) {
	r, err := s.editable(ctx, in.GetRubricId())
	if err != nil {
		return nil, err
	}
	v := &Version{
		ID: s.IDs.New(id.RubricVersion), RubricID: r.ID, Status: StatusDraft, Content: contentFromProto(in.GetContent()), CreatedAt: s.Clock.Now(),
	}
	if err := v.Content.Check(); err != nil {
		return nil, err
	}
	digest, raw, err := v.Content.Sum()
	if err != nil {
		return nil, err
	}
	v.Digest = digest
	out := &registryv1.RubricVersion{}
	err = s.Once.Do(ctx, registryv1.RubricService_CreateRubricVersion_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		kept, fresh, err := s.Store.InsertVersion(ctx, tx, v, raw)
		if err != nil {
			return err
		}
		idempotency.Set(out, versionToProto(r, kept))
		if !fresh {
			idempotency.MarkExisting(out)
			return nil
		}
		return s.record(ctx, tx, "rubric.version.create", r.ID, event.Event{Type: "version", To: string(v.Status)},
			map[string]any{"version": v.Number, "digest": v.Digest})
	})
	if err == nil && idempotency.TakeExistingMark(out) {
		err = request.SetStatus(ctx, http.StatusOK)
	}
	return out, err
}

// PublishRubricVersion publishes a draft. A repeated call returns the published version.
func (s *Server) PublishRubricVersion(ctx context.Context, in *registryv1.PublishRubricVersionRequest) (*registryv1.RubricVersion, error) {
	r, err := s.editable(ctx, in.GetRubricId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, r.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		done, err := s.Store.Publish(ctx, tx, v, s.Clock.Now())
		if err != nil || !done {
			return err
		}
		return s.record(ctx, tx, "rubric.version.publish", r.ID, event.Event{Type: "version", From: string(StatusDraft), To: string(StatusPublished)},
			map[string]any{"version": v.Number, "digest": v.Digest})
	})
	if err != nil {
		return nil, err
	}
	if v, err = s.Store.Version(ctx, s.Pool, r.ID, v.Number); err != nil {
		return nil, err
	}
	return versionToProto(r, v), nil
}

// ListRubricVersions lists the versions of a rubric, newest first.
func (s *Server) ListRubricVersions(
	ctx context.Context, in *registryv1.ListRubricVersionsRequest,
) (*registryv1.ListRubricVersionsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	r, err := s.get(ctx, in.GetRubricId())
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Versions(ctx, s.Pool, r.ID, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListRubricVersionsResponse{}
	for _, v := range found {
		out.Versions = append(out.Versions, versionToProto(r, v))
	}
	return out, request.SetMore(ctx, more)
}

// GetRubricVersion returns one version.
func (s *Server) GetRubricVersion(ctx context.Context, in *registryv1.GetRubricVersionRequest) (*registryv1.RubricVersion, error) {
	r, err := s.get(ctx, in.GetRubricId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, r.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	return versionToProto(r, v), nil
}
