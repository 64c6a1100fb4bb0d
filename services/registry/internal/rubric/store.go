package rubric

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads and writes rubrics.
type Store struct{}

const columns = `id, name, owner_id, owner_name, project_id, project, visibility, description, current_version, created_at`

// Insert stores a new rubric. It returns a conflict if the project already has a rubric with that name.
func (Store) Insert(ctx context.Context, tx pgx.Tx, r *Rubric) error {
	_, err := tx.Exec(ctx, `INSERT INTO rubric (`+columns+`, visibility_version)
		VALUES (@id, @name, @owner_id, @owner_name, @project_id, @project, @visibility, @description, @current_version,
			@created_at, @visibility_version)`, pgx.StrictNamedArgs{
		"id": r.ID, "name": r.Name, "owner_id": r.UserID, "owner_name": r.UserName, "project_id": r.ProjectID,
		"project": r.Project, "visibility": r.Visibility, "description": r.Description, "current_version": r.Current,
		"created_at": r.CreatedAt, "visibility_version": r.VisibilityVersion,
	})
	if pg.IsUnique(err, "rubric_name_key") {
		return fault.New(fault.Conflict, "rubric_exists", "project %s already has a rubric %s", r.Project, r.Name)
	}
	if err != nil {
		return fmt.Errorf("insert a rubric: %w", err)
	}
	return nil
}

// Get returns a rubric visible to the scope.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Rubric, error) {
	r, err := pg.One[Rubric](q.Query(ctx, `SELECT `+columns+` FROM rubric WHERE `+access.Visible+` AND id = $4`, access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a rubric: %w", err)
	}
	return r, nil
}

// List returns the rubrics visible to the scope, newest first, if they match the filter.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f access.Filter, p request.Page) ([]*Rubric, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM rubric WHERE `+access.Filtered+`
		ORDER BY created_at DESC, id DESC LIMIT $7 OFFSET $8`, f.Args(scope, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list rubrics: %w", err)
	}
	found, err := pg.All[Rubric](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list rubrics: %w", err)
	}
	return found, nil
}
