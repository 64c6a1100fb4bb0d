package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// Store reads and writes models.
type Store struct{}

const columns = `id, name, owner_id, owner_name, project_id, project, visibility, description, task, latest_version, created_at`

func scan(row pgx.Row) (*Model, error) {
	m := &Model{}
	err := row.Scan(&m.ID, &m.Name, &m.UserID, &m.UserName, &m.ProjectID, &m.Project, &m.Visibility, &m.Description,
		&m.Task, &m.Latest, &m.CreatedAt)
	return m, err
}

// Insert keeps a new model; a name that the project has is a conflict.
func (Store) Insert(ctx context.Context, tx pgx.Tx, m *Model) error {
	_, err := tx.Exec(ctx, `INSERT INTO model (`+columns+`, visibility_version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		m.ID, m.Name, m.UserID, m.UserName, m.ProjectID, m.Project, m.Visibility, m.Description, m.Task, m.Latest, m.CreatedAt,
		m.VisibilityVersion)
	if pg.IsUnique(err, "model_name_key") {
		return fault.New(fault.Conflict, "model_exists", "project %s has a model %s already", m.Project, m.Name)
	}
	if err != nil {
		return fmt.Errorf("keep a model: %w", err)
	}
	return nil
}

// Get answers a model that the scope sees.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Model, error) {
	m, err := scan(q.QueryRow(ctx, `SELECT `+columns+` FROM model WHERE `+own.Visible+` AND id = $4`, own.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a model: %w", err)
	}
	return m, nil
}

// List answers the models that the scope sees, newest first; name "" is every name.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, name string, p page.Page) ([]*Model, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM model WHERE `+own.Visible+` AND ($4 = '' OR name = $4)
		ORDER BY created_at DESC, id DESC LIMIT $5 OFFSET $6`, own.Args(scope, name, p.Ask(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Model, error) { return scan(row) })
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	return found, nil
}

// Resolve finds a ready version by its reference; nils where there is none that the scope sees.
func (s Store) Resolve(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref) (*Model, *Version, error) {
	m, err := scan(q.QueryRow(ctx, `SELECT `+columns+` FROM model WHERE `+own.Visible+` AND project = $4 AND name = $5`,
		own.Args(scope, r.Project, r.Name)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("resolve a model: %w", err)
	}
	number, err := strconv.ParseInt(r.Version, 10, 32)
	switch {
	case r.Version == ref.Latest && m.Latest != nil:
		number = int64(*m.Latest)
	case err != nil || strconv.FormatInt(number, 10) != r.Version:
		return nil, nil, nil //nolint:nilerr // what is no number in its one spelling is no version.
	}
	v, err := s.Version(ctx, q, m.ID, int32(number))
	if fault.Is(err, fault.Absent) || (err == nil && v.Status != StatusReady) {
		return nil, nil, nil
	}
	return m, v, err
}
