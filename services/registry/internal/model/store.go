package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// Store reads and writes models.
type Store struct{}

const columns = `id, name, owner_id, owner_name, project_id, project, visibility, description, task, latest_version, created_at`

// shown is the column list of reads; kept hides deleted models.
const (
	shown = columns + `, row_version, (SELECT coalesce(json_object_agg(a.alias, a.version), '{}') FROM model_alias a WHERE a.model_id = model.id) AS aliases`
	kept  = ` AND deleted_at IS NULL`
)

// Insert inserts a new model. A name that the project already uses is a conflict.
func (Store) Insert(ctx context.Context, tx pgx.Tx, m *Model) error {
	_, err := tx.Exec(ctx, `INSERT INTO model (`+columns+`, visibility_version)
		VALUES (@id, @name, @owner_id, @owner_name, @project_id, @project, @visibility, @description, @task, @latest_version,
			@created_at, @visibility_version)`, pgx.StrictNamedArgs{
		"id": m.ID, "name": m.Name, "owner_id": m.UserID, "owner_name": m.UserName, "project_id": m.ProjectID,
		"project": m.Project, "visibility": m.Visibility, "description": m.Description, "task": m.Task, "latest_version": m.Latest,
		"created_at": m.CreatedAt, "visibility_version": m.VisibilityVersion,
	})
	if pg.IsUnique(err, "model_name_key") {
		return fault.New(fault.Conflict, "model_exists", "project %s already has a model %s", m.Project, m.Name)
	}
	if err != nil {
		return fmt.Errorf("insert a model: %w", err)
	}
	m.RowVersion, m.Aliases = 1, map[string]int32{}
	return nil
}

// Get returns a model that is visible in the scope.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Model, error) {
	m, err := pg.One[Model](q.Query(ctx, `SELECT `+shown+` FROM model WHERE `+access.Visible+` AND id = $4`+kept, access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a model: %w", err)
	}
	return m, nil
}

// List returns the models that are visible in the scope, newest first, if they match the filter.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f access.Filter, p request.Page) ([]*Model, error) {
	rows, err := q.Query(ctx, `SELECT `+shown+` FROM model WHERE `+access.Filtered+``+kept+`
		ORDER BY created_at DESC, id DESC LIMIT $7 OFFSET $8`, f.Args(scope, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	found, err := pg.All[Model](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	return found, nil
}

// Lock locks a model's row until the transaction ends and returns the model. Locking and reading are two statements: a
// single statement would see the aliases as they were before the wait for the lock.
func (Store) Lock(ctx context.Context, tx pgx.Tx, id string) (*Model, error) {
	if _, err := tx.Exec(ctx, `SELECT FROM model WHERE id = $1 FOR UPDATE`, id); err != nil {
		return nil, fmt.Errorf("lock a model: %w", err)
	}
	m, err := pg.One[Model](tx.Query(ctx, `SELECT `+shown+` FROM model WHERE id = $1`+kept, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a model: %w", err)
	}
	return m, nil
}

// Resolve is like Find, but returns nil values for an archived version, because new jobs and revisions must not use it.
func (s Store) Resolve(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref) (*Model, *Version, error) {
	m, v, err := s.Find(ctx, q, scope, r)
	if err != nil || v == nil || v.Lifecycle == lifecycleArchived {
		return nil, nil, err
	}
	return m, v, nil
}

// Find returns the ready version that a reference identifies by number or alias. It returns nil values if no such
// version is visible in the scope.
func (s Store) Find(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref) (*Model, *Version, error) {
	m, err := pg.One[Model](q.Query(ctx, `SELECT `+shown+` FROM model WHERE `+access.Visible+` AND project = $4 AND name = $5`+kept,
		access.Args(scope, r.Project, r.Name)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("resolve a model: %w", err)
	}
	number, ok, err := s.number(ctx, q, m, r.Version)
	if err != nil || !ok {
		return nil, nil, err
	}
	v, err := s.Version(ctx, q, m.ID, number)
	if fault.Is(err, fault.Absent) || (err == nil && v.Status != StatusReady) {
		return nil, nil, nil
	}
	return m, v, err
}

// number returns the number of the version that a word identifies. The word is the version part of a reference: a
// number, an alias or ref.Latest.
func (s Store) number(ctx context.Context, q pg.Querier, m *Model, word string) (int32, bool, error) {
	if word == ref.Latest {
		return s.newest(ctx, q, m.ID)
	}
	if number, ok := m.Aliases[word]; ok {
		return number, true, nil
	}
	number, err := strconv.ParseInt(word, 10, 32)
	// Accept only the canonical spelling of a number, not "01" or "+1".
	return int32(number), err == nil && strconv.FormatInt(number, 10) == word, nil
}

// newest returns the newest ready version that is not archived.
func (Store) newest(ctx context.Context, q pg.Querier, modelID string) (number int32, ok bool, err error) {
	err = q.QueryRow(ctx, `SELECT version FROM model_version WHERE model_id = $1 AND status = 'ready' AND lifecycle <> 'archived'
		ORDER BY version DESC LIMIT 1`, modelID).Scan(&number)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("find the newest version of a model: %w", err)
	}
	return number, true, nil
}
