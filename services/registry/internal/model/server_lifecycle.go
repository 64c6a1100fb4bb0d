package model

import (
	"context"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/emptypb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/modelcard"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// editable returns a model if the caller may change it.
func (s *Server) editable(ctx context.Context, modelID string) (*Model, error) {
	m, err := s.get(ctx, modelID)
	if err != nil {
		return nil, err
	}
	return m, m.Require(authn.ScopeOf(ctx), SubjectKind, m.ID)
}

// withETag converts a model for the API and sets its version as the ETag, for use with If-Match.
func (s *Server) withETag(ctx context.Context, m *Model) (*registryv1.Model, error) {
	return ToProto(m), request.SetETag(ctx, m.RowVersion)
}

// idle returns a conflict if unfinished jobs use the version with the given number. For number 0, it returns a conflict
// if they use any version.
func (s *Server) idle(ctx context.Context, m *Model, number int32) error {
	r, what := ref.Ref{Kind: ref.Model, Project: m.Project, Name: m.Name}, "model "+m.Name
	if number != 0 {
		r.Version, what = strconv.Itoa(int(number)), "version "+strconv.Itoa(int(number))
	}
	jobs, err := s.Jobs.UsersOf(ctx, r.String())
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return nil
	}
	users := make([]string, len(jobs))
	for i, id := range jobs {
		users[i] = "job " + id
	}
	return inUse(what, users)
}

// UpdateModel changes the description of a model.
func (s *Server) UpdateModel(ctx context.Context, in *registryv1.UpdateModelRequest) (*registryv1.Model, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	m, err = s.within(ctx, m.ID, func(ctx context.Context, tx pgx.Tx, m *Model) error {
		if in.Description == nil || in.GetDescription() == m.Description {
			return nil
		}
		if err := s.Store.Describe(ctx, tx, m.ID, in.GetDescription()); err != nil {
			return err
		}
		return s.record(ctx, tx, "model.update", m.ID, event.Event{Type: "updated"}, map[string]any{"description": in.GetDescription()})
	})
	if err != nil {
		return nil, err
	}
	return s.withETag(ctx, m)
}

// DeleteModel deletes a model that is not in use.
func (s *Server) DeleteModel(ctx context.Context, in *registryv1.DeleteModelRequest) (*emptypb.Empty, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	if err := s.idle(ctx, m, 0); err != nil {
		return nil, err
	}
	_, err = s.within(ctx, m.ID, s.remove)
	return &emptypb.Empty{}, err
}

// ListModelHistory returns the changes of a model's versions and aliases, newest first.
func (s *Server) ListModelHistory(ctx context.Context, in *registryv1.ListModelHistoryRequest) (*registryv1.ListModelHistoryResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	m, err := s.get(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	found, err := s.Store.History(ctx, s.Pool, m.ID, request.TimeOf(in.GetAt()), p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListModelHistoryResponse{}
	for _, c := range found {
		out.Entries = append(out.Entries, changeToProto(c))
	}
	return out, request.SetMore(ctx, more)
}

// checkAlias rejects the aliases that the service manages.
func checkAlias(alias string) error {
	if !slices.Contains([]string{aliasProduction, ref.Latest}, alias) {
		return nil
	}
	return fault.New(fault.Conflict, "alias_reserved", "the alias %s is reserved; promote a version instead", alias)
}

// SetModelAlias points an alias to a version.
func (s *Server) SetModelAlias(ctx context.Context, in *registryv1.SetModelAliasRequest) (*registryv1.Model, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err == nil {
		err = checkAlias(in.GetAlias())
	}
	if err != nil {
		return nil, err
	}
	m, err = s.within(ctx, m.ID, func(ctx context.Context, tx pgx.Tx, m *Model) error {
		return s.setAlias(ctx, tx, m, in.GetAlias(), in.GetVersion())
	})
	if err != nil {
		return nil, err
	}
	return s.withETag(ctx, m)
}

// DeleteModelAlias deletes an alias.
func (s *Server) DeleteModelAlias(ctx context.Context, in *registryv1.DeleteModelAliasRequest) (*emptypb.Empty, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err == nil {
		err = checkAlias(in.GetAlias())
	}
	if err != nil {
		return nil, err
	}
	_, err = s.within(ctx, m.ID, func(ctx context.Context, tx pgx.Tx, m *Model) error {
		return s.dropAlias(ctx, tx, m, in.GetAlias())
	})
	return &emptypb.Empty{}, err
}

// moves changes the lifecycle of a version with fn and returns the changed version.
func (s *Server) moves(
	ctx context.Context, modelID string, number int32, fn func(ctx context.Context, tx pgx.Tx, m *Model) error,
) (*registryv1.ModelVersion, error) {
	m, err := s.within(ctx, modelID, fn)
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, m.ID, number)
	if err != nil {
		return nil, err
	}
	return versionToProto(m, v), nil
}

// PromoteModelVersion puts a version into production.
func (s *Server) PromoteModelVersion(ctx context.Context, in *registryv1.PromoteModelVersionRequest) (*registryv1.ModelVersion, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	previous, had := m.Aliases[aliasProduction]
	if in.GetArchivePrevious() && had && previous != in.GetVersion() {
		if err := s.idle(ctx, m, previous); err != nil {
			return nil, err
		}
	}
	return s.moves(ctx, m.ID, in.GetVersion(), func(ctx context.Context, tx pgx.Tx, m *Model) error {
		if now, has := m.Aliases[aliasProduction]; in.GetArchivePrevious() && (now != previous || has != had) {
			return fault.New(fault.Conflict, "version_changed", "another request has promoted another version; try again")
		}
		return s.promote(ctx, tx, m, in.GetVersion(), in.GetNote(), in.GetArchivePrevious())
	})
}

// ArchiveModelVersion archives a version that is not in use.
func (s *Server) ArchiveModelVersion(ctx context.Context, in *registryv1.ArchiveModelVersionRequest) (*registryv1.ModelVersion, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	if err := s.idle(ctx, m, in.GetVersion()); err != nil {
		return nil, err
	}
	return s.moves(ctx, m.ID, in.GetVersion(), func(ctx context.Context, tx pgx.Tx, m *Model) error {
		return s.archive(ctx, tx, m, in.GetVersion(), in.GetNote())
	})
}

// UnarchiveModelVersion makes an archived version a candidate again.
func (s *Server) UnarchiveModelVersion(ctx context.Context, in *registryv1.UnarchiveModelVersionRequest) (*registryv1.ModelVersion, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	return s.moves(ctx, m.ID, in.GetVersion(), func(ctx context.Context, tx pgx.Tx, m *Model) error {
		v, err := s.Store.LockVersion(ctx, tx, m.ID, in.GetVersion())
		if err != nil || v.Lifecycle != lifecycleArchived {
			return err
		}
		if err := s.Store.SetLifecycle(ctx, tx, m.ID, v.Number, lifecycleArchived, lifecycleCandidate); err != nil {
			return err
		}
		return s.changed(ctx, tx, Change{ModelID: m.ID, Action: actionUnarchived, Version: v.Number})
	})
}

// ListModelFiles returns the files of a version.
func (s *Server) ListModelFiles(ctx context.Context, in *registryv1.ListModelFilesRequest) (*registryv1.ListModelFilesResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	_, v, err := s.version(ctx, in.GetModelId(), in.GetVersion())
	if err != nil {
		return nil, err
	}
	objects, more := request.CutPage(pageOf(v, p), p)
	out := &registryv1.ListModelFilesResponse{}
	for _, o := range objects {
		out.Files = append(out.Files, &registryv1.ModelFile{Path: o.GetPath(), SizeBytes: o.GetSizeBytes(), Sha256: o.GetSha256(), Packed: o.GetUnpack()})
	}
	return out, request.SetMore(ctx, more)
}

// pageOf returns the files of a version on a page, and one more if there are more pages.
func pageOf(v *Version, p request.Page) []*jobsv1.ObjectRef {
	objects := ToObjects(v)
	objects = objects[min(p.Offset, len(objects)):]
	return objects[:min(p.FetchLimit(), len(objects))]
}

// version returns a version of a model that is visible to the caller.
func (s *Server) version(ctx context.Context, modelID string, number int32) (*Model, *Version, error) {
	m, err := s.get(ctx, modelID)
	if err != nil {
		return nil, nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, m.ID, number)
	return m, v, err
}

// GetModelCard returns the card of a version.
func (s *Server) GetModelCard(ctx context.Context, in *registryv1.GetModelCardRequest) (*registryv1.ModelCard, error) {
	m, v, err := s.version(ctx, in.GetModelId(), in.GetVersion())
	if err != nil {
		return nil, err
	}
	c, err := s.Cards.Get(ctx, s.Pool, m.ID, v.Number, in.GetRevision())
	if err != nil {
		return nil, err
	}
	return cardToProto(c), request.SetETag(ctx, int64(c.Revision))
}

// PutModelCard writes the card of a version as a new revision.
func (s *Server) PutModelCard(ctx context.Context, in *registryv1.PutModelCardRequest) (*registryv1.ModelCard, error) {
	m, err := s.editable(ctx, in.GetModelId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, m.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	c, err := modelcard.Read(in.GetContent())
	if err != nil {
		return nil, err
	}
	c.ModelID, c.Version, c.Author, c.CreatedAt = m.ID, v.Number, authn.CallerOf(ctx).Username, s.Clock.Now()
	var kept *modelcard.Card
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		var fresh bool
		if kept, fresh, err = s.Cards.Put(ctx, tx, c); err != nil || !fresh {
			return err
		}
		return s.record(ctx, tx, "model.card.update", m.ID,
			event.Event{Type: "card", To: "revision " + strconv.Itoa(int(c.Revision)), Message: "version " + strconv.Itoa(int(v.Number))},
			map[string]any{"version": v.Number, "revision": c.Revision, "digest": c.Digest})
	})
	if err != nil {
		return nil, err
	}
	return cardToProto(kept), request.SetETag(ctx, int64(kept.Revision))
}
