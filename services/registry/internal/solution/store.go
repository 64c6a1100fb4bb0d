package solution

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

// Store reads and writes solutions and applications.
type Store struct{}

const columns = `id, name, version, owner_id, owner_name, project_id, project, visibility, digest, manifest, created_at`

// Put stores a solution. If the project already has the same manifest with that name and version, Put returns the
// stored solution and sets fresh to false. Another manifest with the same name and version is a conflict.
func (Store) Put(ctx context.Context, tx pgx.Tx, s *Solution) (kept *Solution, fresh bool, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO solution (`+columns+`, visibility_version)
		VALUES (@id, @name, @version, @owner_id, @owner_name, @project_id, @project, @visibility, @digest, @manifest, @created_at,
			@visibility_version) ON CONFLICT ON CONSTRAINT solution_version_key DO NOTHING`, pgx.StrictNamedArgs{
		"id": s.ID, "name": s.Name, "version": s.Version, "owner_id": s.UserID, "owner_name": s.UserName,
		"project_id": s.ProjectID, "project": s.Project, "visibility": s.Visibility, "digest": s.Digest,
		"manifest": []byte(s.Manifest), "created_at": s.CreatedAt, "visibility_version": s.VisibilityVersion,
	})
	if err != nil {
		return nil, false, fmt.Errorf("insert a solution: %w", err)
	}
	if tag.RowsAffected() == 1 {
		return s, true, nil
	}
	kept, err = pg.One[Solution](tx.Query(ctx, `SELECT `+columns+` FROM solution WHERE project_id = $1 AND name = $2 AND version = $3`,
		s.ProjectID, s.Name, s.Version))
	if err != nil {
		return nil, false, fmt.Errorf("load the existing solution: %w", err)
	}
	if kept.Digest != s.Digest {
		return nil, false, fault.New(fault.Conflict, "solution_exists", "project %s already has solution %s with a different manifest", s.Project, s)
	}
	return kept, false, nil
}

// Get returns a solution visible to the scope.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Solution, error) {
	s, err := pg.One[Solution](q.Query(ctx, `SELECT `+columns+` FROM solution WHERE `+access.Visible+` AND id = $4`, access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a solution: %w", err)
	}
	return s, nil
}

// Named returns the solution of a project with the given name and version, or nil if no such solution is visible in the
// scope.
func (Store) Named(ctx context.Context, q pg.Querier, scope authn.Scope, projectID, name, version string) (*Solution, error) {
	s, err := pg.One[Solution](q.Query(ctx, `SELECT `+columns+` FROM solution WHERE `+access.Visible+` AND project_id = $4 AND name = $5 AND version = $6`,
		access.Args(scope, projectID, name, version)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no match is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("find a solution by name: %w", err)
	}
	return s, nil
}

// List returns the solutions visible to the scope, newest first, if they match the filter.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f access.Filter, p request.Page) ([]*Solution, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM solution WHERE `+access.Filtered+`
		ORDER BY created_at DESC, id DESC LIMIT $7 OFFSET $8`, f.Args(scope, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list solutions: %w", err)
	}
	found, err := pg.All[Solution](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list solutions: %w", err)
	}
	return found, nil
}
