package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// Store reads and writes environments. What was deleted is nowhere but in the rows of its versions.
type Store struct{}

const columns = `id, name, owner_id, owner_name, project_id, project, visibility, description, latest_version, created_at`

const visible = own.Visible + ` AND deleted_at IS NULL`

func scan(row pgx.Row) (*Environment, error) {
	e := &Environment{}
	err := row.Scan(&e.ID, &e.Name, &e.UserID, &e.UserName, &e.ProjectID, &e.Project, &e.Visibility, &e.Description, &e.Latest, &e.CreatedAt)
	return e, err
}

// Insert keeps a new environment; a name that the project has is a conflict.
func (Store) Insert(ctx context.Context, tx pgx.Tx, e *Environment) error {
	_, err := tx.Exec(ctx, `INSERT INTO environment (`+columns+`, visibility_version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		e.ID, e.Name, e.UserID, e.UserName, e.ProjectID, e.Project, e.Visibility, e.Description, e.Latest, e.CreatedAt, e.VisibilityVersion)
	if pg.IsUnique(err, "environment_name_key") {
		return fault.New(fault.Conflict, "environment_exists", "project %s has an environment %s already", e.Project, e.Name)
	}
	if err != nil {
		return fmt.Errorf("keep an environment: %w", err)
	}
	return nil
}

// Get answers an environment that the scope sees.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Environment, error) {
	e, err := scan(q.QueryRow(ctx, `SELECT `+columns+` FROM environment WHERE `+visible+` AND id = $4`, own.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load an environment: %w", err)
	}
	return e, nil
}

// List answers the environments that the scope sees, newest first; name "" is every name.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, name string, p page.Page) ([]*Environment, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM environment WHERE `+visible+` AND ($4 = '' OR name = $4)
		ORDER BY created_at DESC, id DESC LIMIT $5 OFFSET $6`, own.Args(scope, name, p.Ask(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Environment, error) { return scan(row) })
	if err != nil {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	return found, nil
}

// Describe changes what is said of an environment.
func (Store) Describe(ctx context.Context, tx pgx.Tx, id, description string) (*Environment, error) {
	e, err := scan(tx.QueryRow(ctx, `UPDATE environment SET description = $2 WHERE id = $1 AND deleted_at IS NULL RETURNING `+columns, id, description))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("describe an environment: %w", err)
	}
	return e, nil
}

// Delete takes an environment out of the catalog; absent where another call did so first.
func (Store) Delete(ctx context.Context, tx pgx.Tx, id string, at time.Time) error {
	tag, err := tx.Exec(ctx, `UPDATE environment SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL`, id, at)
	if err != nil {
		return fmt.Errorf("delete an environment: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.Absentf(SubjectKind, id)
	}
	return nil
}

// Resolve finds a version that a binding may name by its reference: a ready one, or a deprecated one, which only
// the status of what is bound to it shows. Nils where there is none that the scope sees.
func (s Store) Resolve(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref) (*Environment, *Version, error) {
	e, err := scan(q.QueryRow(ctx, `SELECT `+columns+` FROM environment WHERE `+visible+` AND project = $4 AND name = $5`,
		own.Args(scope, r.Project, r.Name)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("resolve an environment: %w", err)
	}
	v, err := s.Version(ctx, q, e.ID, r.Version)
	if fault.Is(err, fault.Absent) && r.Version == ref.Latest && e.Latest != nil {
		v, err = s.Version(ctx, q, e.ID, *e.Latest)
	}
	if fault.Is(err, fault.Absent) || (err == nil && v.State != StateReady && v.State != StateDeprecated) {
		return nil, nil, nil
	}
	return e, v, err
}
