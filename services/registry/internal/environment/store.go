package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// Store reads and writes environments. It treats deleted environments as absent.
type Store struct{}

const columns = `id, name, owner_id, owner_name, project_id, project, visibility, description, latest_version, created_at`

const visible = access.Visible + ` AND deleted_at IS NULL`

// Insert stores a new environment. It returns a conflict if the project already has an environment with that name.
func (Store) Insert(ctx context.Context, tx pgx.Tx, e *Environment) error {
	_, err := tx.Exec(ctx, `INSERT INTO environment (`+columns+`, visibility_version)
		VALUES (@id, @name, @owner_id, @owner_name, @project_id, @project, @visibility, @description, @latest_version, @created_at,
			@visibility_version)`, pgx.StrictNamedArgs{
		"id": e.ID, "name": e.Name, "owner_id": e.UserID, "owner_name": e.UserName, "project_id": e.ProjectID,
		"project": e.Project, "visibility": e.Visibility, "description": e.Description, "latest_version": e.Latest,
		"created_at": e.CreatedAt, "visibility_version": e.VisibilityVersion,
	})
	if pg.IsUnique(err, "environment_name_key") {
		return fault.New(fault.Conflict, "environment_exists", "project %s already has an environment %s", e.Project, e.Name)
	}
	if err != nil {
		return fmt.Errorf("insert an environment: %w", err)
	}
	return nil
}

// Get returns an environment visible to the scope.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Environment, error) {
	e, err := pg.One[Environment](q.Query(ctx, `SELECT `+columns+` FROM environment WHERE `+visible+` AND id = $4`, access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load an environment: %w", err)
	}
	return e, nil
}

// List returns the environments visible to the scope, newest first, if they match the filter.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f access.Filter, p request.Page) ([]*Environment, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM environment WHERE `+access.Filtered+` AND deleted_at IS NULL
		ORDER BY created_at DESC, id DESC LIMIT $7 OFFSET $8`, f.Args(scope, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	found, err := pg.All[Environment](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	return found, nil
}

// Describe changes the description of an environment.
func (Store) Describe(ctx context.Context, tx pgx.Tx, id, description string) (*Environment, error) {
	e, err := pg.One[Environment](tx.Query(ctx, `UPDATE environment SET description = $2 WHERE id = $1 AND deleted_at IS NULL RETURNING `+columns, id, description))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("update an environment: %w", err)
	}
	return e, nil
}

// Delete marks an environment as deleted. It returns an error of kind fault.Absent if the environment is already
// deleted.
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

// Resolve finds a ready or deprecated version by its reference. The status of an application shows whether its version
// is deprecated. Resolve returns nil values if no such version is visible in the scope.
func (s Store) Resolve(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref) (*Environment, *Version, error) {
	e, err := pg.One[Environment](q.Query(ctx, `SELECT `+columns+` FROM environment WHERE `+visible+` AND project = $4 AND name = $5`,
		access.Args(scope, r.Project, r.Name)...))
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
