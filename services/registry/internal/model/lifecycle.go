package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// The actions in a model's history.
const (
	actionPromoted     = "promoted"
	actionArchived     = "archived"
	actionUnarchived   = "unarchived"
	actionAliasSet     = "alias_set"
	actionAliasDeleted = "alias_deleted"
)

// aliasProduction is the alias of the version in production. Only promotion moves it.
const aliasProduction = "production"

// maxAliases is the maximum number of aliases of a model.
const maxAliases = 64

// Change is one entry of a model's history.
type Change struct {
	ID, ModelID string
	At          time.Time
	Action      string
	Version     int32
	Previous    *int32
	Alias       string
	Actor       string
	Note        string
}

// Jobs lists the unfinished jobs that use a model version. If the reference contains no version, it lists the jobs that
// use any version of the model.
type Jobs interface {
	UsersOf(ctx context.Context, ref string) ([]string, error)
}

// changed writes a history entry with its event and its audit row.
func (s *Server) changed(ctx context.Context, tx pgx.Tx, c Change) error {
	e := event.Event{
		SubjectKind: SubjectKind, SubjectID: c.ModelID, Type: c.Action, To: fmt.Sprintf("version %d", c.Version), Reason: c.Alias, Message: c.Note,
	}
	if c.Previous != nil {
		e.From = fmt.Sprintf("version %d", *c.Previous)
	}
	kept, err := s.Events.Append(ctx, tx, e)
	if err != nil {
		return err
	}
	c.ID, c.At, c.Actor = kept.ID, kept.At, authn.CallerOf(ctx).Username
	if err := s.Store.InsertChange(ctx, tx, &c); err != nil {
		return err
	}
	return s.audit(ctx, tx, "model."+c.Action, c.ModelID, map[string]any{
		"version": c.Version, "previous_version": c.Previous, "alias": c.Alias, "note": c.Note,
	})
}

// promote puts a version of a locked model into production.
func (s *Server) promote(ctx context.Context, tx pgx.Tx, m *Model, number int32, note string, archivePrevious bool) error {
	v, err := s.Store.LockVersion(ctx, tx, m.ID, number)
	switch {
	case err != nil || v.Lifecycle == lifecycleProduction:
		return err
	case v.Status != StatusReady:
		return fault.New(fault.Conflict, "version_not_ready", "version %d is %s: %s", v.Number, v.Status, v.StatusReason)
	case v.Lifecycle == lifecycleArchived:
		return fault.New(fault.Conflict, "version_archived", "version %d is archived; unarchive it first", v.Number)
	}
	var previous *int32
	if number, ok := m.Aliases[aliasProduction]; ok {
		previous = &number
		delete(m.Aliases, aliasProduction) // archiving must not delete this alias: it moves to the new version
		if err := s.supersede(ctx, tx, m, number, archivePrevious); err != nil {
			return err
		}
	}
	if err := s.Store.SetProduction(ctx, tx, m.ID, number, authn.CallerOf(ctx).Username, s.Clock.Now()); err != nil {
		return err
	}
	if err := s.Store.SetAlias(ctx, tx, m.ID, aliasProduction, number); err != nil {
		return err
	}
	return s.changed(ctx, tx, Change{ModelID: m.ID, Action: actionPromoted, Version: number, Previous: previous, Note: note})
}

// supersede takes a version of a locked model out of production, and archives it if archive is set.
func (s *Server) supersede(ctx context.Context, tx pgx.Tx, m *Model, number int32, archive bool) error {
	if archive {
		return s.archive(ctx, tx, m, number, "another version was promoted")
	}
	return s.Store.SetLifecycle(ctx, tx, m.ID, number, lifecycleProduction, lifecycleCandidate)
}

// archive archives a version of a locked model and deletes the aliases of that version. It returns a conflict if the
// version is in use.
func (s *Server) archive(ctx context.Context, tx pgx.Tx, m *Model, number int32, note string) error {
	v, err := s.Store.LockVersion(ctx, tx, m.ID, number)
	if err != nil || v.Lifecycle == lifecycleArchived {
		return err
	}
	users, err := s.Store.Users(ctx, tx, m.ID, number)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return inUse(fmt.Sprintf("version %d", number), users)
	}
	if err := s.Store.SetLifecycle(ctx, tx, m.ID, number, v.Lifecycle, lifecycleArchived); err != nil {
		return err
	}
	for _, alias := range slices.Sorted(maps.Keys(m.Aliases)) {
		if m.Aliases[alias] != number {
			continue
		}
		if err := s.dropAlias(ctx, tx, m, alias); err != nil {
			return err
		}
	}
	return s.changed(ctx, tx, Change{ModelID: m.ID, Action: actionArchived, Version: number, Note: note})
}

// inUse returns a conflict error that lists the users of a model or a version.
func inUse(what string, users []string) error {
	return fault.New(fault.Conflict, "version_in_use", "%s is in use by %s", what, strings.Join(users, ", "))
}

func (s *Server) dropAlias(ctx context.Context, tx pgx.Tx, m *Model, alias string) error {
	was := m.Aliases[alias]
	if err := s.Store.DropAlias(ctx, tx, m.ID, alias); err != nil {
		return err
	}
	return s.changed(ctx, tx, Change{ModelID: m.ID, Action: actionAliasDeleted, Version: was, Previous: &was, Alias: alias})
}

// setAlias points an alias of a locked model to a version.
func (s *Server) setAlias(ctx context.Context, tx pgx.Tx, m *Model, alias string, number int32) error {
	v, err := s.Store.LockVersion(ctx, tx, m.ID, number)
	if err != nil {
		return err
	}
	was, set := m.Aliases[alias]
	switch {
	case set && was == number:
		return nil
	case v.Lifecycle == lifecycleArchived:
		return fault.New(fault.Conflict, "version_archived", "version %d is archived; unarchive it first", number)
	case !set && len(m.Aliases) >= maxAliases:
		return fault.New(fault.Conflict, "aliases", "the model already has %d aliases, the maximum; remove one first", maxAliases)
	}
	if err := s.Store.SetAlias(ctx, tx, m.ID, alias, number); err != nil {
		return err
	}
	c := Change{ModelID: m.ID, Action: actionAliasSet, Version: number, Alias: alias}
	if set {
		c.Previous = &was
	}
	return s.changed(ctx, tx, c)
}

// within runs fn on a locked model and returns the changed model. It returns an error if the request's If-Match header
// states another version.
func (s *Server) within(ctx context.Context, modelID string, fn func(ctx context.Context, tx pgx.Tx, m *Model) error) (m *Model, err error) {
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		locked, err := s.Store.Lock(ctx, tx, modelID)
		if err != nil {
			return err
		}
		if err := request.CheckIfMatch(ctx, locked.RowVersion); err != nil {
			return err
		}
		if err := fn(ctx, tx, locked); err != nil {
			return err
		}
		m, err = s.Store.Lock(ctx, tx, modelID)
		if fault.Is(err, fault.Absent) {
			m, err = locked, nil // fn deleted the model
		}
		return err
	})
	return m, err
}

// remove deletes a locked model. If a revision refers to the model, its rows are kept and the model is only hidden.
func (s *Server) remove(ctx context.Context, tx pgx.Tx, m *Model) error {
	users, err := s.Store.Users(ctx, tx, m.ID, 0)
	if err != nil {
		return err
	}
	adapters, err := s.Store.Adapters(ctx, tx, m)
	if err != nil {
		return err
	}
	if users = append(users, adapters...); len(users) > 0 {
		return inUse("model "+m.Name, users)
	}
	if _, err := s.Events.Append(ctx, tx, event.Event{SubjectKind: SubjectKind, SubjectID: m.ID, Type: "deleted"}); err != nil {
		return err
	}
	if err := s.audit(ctx, tx, "model.delete", m.ID, map[string]any{"name": m.Name, "project": m.Project}); err != nil {
		return err
	}
	return s.Store.Delete(ctx, tx, m.ID, s.Clock.Now())
}
