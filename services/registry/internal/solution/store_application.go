package solution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

const applicationColumns = `id, owner_id, owner_name, project_id, project, visibility, solution, digest, snapshot, resolved, created_at`

// Apply stores an application. If the project already has an identical application, Apply returns that one and sets
// fresh to false.
func (Store) Apply(ctx context.Context, tx pgx.Tx, a *Application, snapshot []byte) (kept *Application, fresh bool, err error) {
	resolved, err := json.Marshal(a.Resolved)
	if err != nil {
		return nil, false, fmt.Errorf("write the digests of an application: %w", err)
	}
	tag, err := tx.Exec(ctx, `INSERT INTO solution_application (`+applicationColumns+`, visibility_version)
		VALUES (@id, @owner_id, @owner_name, @project_id, @project, @visibility, @solution, @digest, @snapshot, @resolved,
			@created_at, @visibility_version) ON CONFLICT ON CONSTRAINT solution_application_digest_key DO NOTHING`, pgx.StrictNamedArgs{
		"id": a.ID, "owner_id": a.UserID, "owner_name": a.UserName, "project_id": a.ProjectID, "project": a.Project,
		"visibility": a.Visibility, "solution": a.Solution, "digest": a.Digest, "snapshot": snapshot, "resolved": resolved,
		"created_at": a.CreatedAt, "visibility_version": a.VisibilityVersion,
	})
	if err != nil {
		return nil, false, fmt.Errorf("insert an application: %w", err)
	}
	if tag.RowsAffected() == 1 {
		return a, true, nil
	}
	kept, err = pg.One[Application](tx.Query(ctx, `SELECT `+applicationColumns+` FROM solution_application WHERE project_id = $1 AND digest = $2`,
		a.ProjectID, a.Digest))
	if err != nil {
		return nil, false, fmt.Errorf("load the existing application: %w", err)
	}
	return kept, false, nil
}

// Application returns an application visible to the scope.
func (Store) Application(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Application, error) {
	a, err := pg.One[Application](q.Query(ctx, `SELECT `+applicationColumns+` FROM solution_application WHERE `+access.Visible+` AND id = $4`,
		access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("solution application", id)
	}
	if err != nil {
		return nil, fmt.Errorf("load an application: %w", err)
	}
	return a, nil
}

// Applications returns the applications visible to the scope, newest first.
func (Store) Applications(ctx context.Context, q pg.Querier, scope authn.Scope, p request.Page) ([]*Application, error) {
	rows, err := q.Query(ctx, `SELECT `+applicationColumns+` FROM solution_application WHERE `+access.Visible+`
		ORDER BY created_at DESC, id DESC LIMIT $4 OFFSET $5`, access.Args(scope, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list applications: %w", err)
	}
	found, err := pg.All[Application](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list applications: %w", err)
	}
	return found, nil
}
