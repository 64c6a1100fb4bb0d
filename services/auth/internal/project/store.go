package project

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

const columns = `id, key, name, description, team_id, visibility, visibility_version, created_at, archived_at`

// visible is the WHERE condition of every read by a user. The function seen returns the arguments of this condition,
// followed by further arguments.
const visible = `($1 OR (visibility = 'all' AND $2 <> '') OR id = ANY($3))`

func seen(s authn.Scope, more ...any) []any {
	return append([]any{s.Admin, s.UserID, s.Projects}, more...)
}

func scan(row pgx.Row) (p Project, err error) {
	err = row.Scan(&p.ID, &p.Key, &p.Name, &p.Description, &p.TeamID, &p.Visibility, &p.VisibilityVersion, &p.CreatedAt, &p.ArchivedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Project{}, errUnknown
	}
	if err != nil {
		return Project{}, fmt.Errorf("load the project: %w", err)
	}
	return p, nil
}

// load finds a project by its id or by its key.
func load(ctx context.Context, q pg.Querier, byID bool, name string) (Project, error) {
	where := `key = $1`
	if byID {
		where = `id = $1`
	}
	return scan(q.QueryRow(ctx, `SELECT `+columns+` FROM project WHERE `+where, name))
}

// get returns a project that callers with this scope may read. A hidden project gives the same error as an unknown one.
func get(ctx context.Context, q pg.Querier, s authn.Scope, projectID string) (Project, error) {
	return shown(projectID)(scan(q.QueryRow(ctx, `SELECT `+columns+` FROM project WHERE `+visible+` AND id = $4`, seen(s, projectID)...)))
}

// lock loads a project that callers with this scope may read, and blocks other changes until the transaction ends.
func lock(ctx context.Context, tx pgx.Tx, s authn.Scope, projectID string) (Project, error) {
	return shown(projectID)(scan(tx.QueryRow(ctx,
		`SELECT `+columns+` FROM project WHERE `+visible+` AND id = $4 FOR NO KEY UPDATE`, seen(s, projectID)...)))
}

func shown(projectID string) func(Project, error) (Project, error) {
	return func(p Project, err error) (Project, error) {
		if errors.Is(err, errUnknown) {
			return Project{}, fault.Absentf(kind, projectID)
		}
		return p, err
	}
}

// list returns the projects that callers with this scope may read, ordered by key.
func list(ctx context.Context, q pg.Querier, s authn.Scope, p request.Page) ([]Project, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM project WHERE `+visible+` ORDER BY key LIMIT $4 OFFSET $5`, seen(s, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	projects, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Project, error) { return scan(row) })
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	return projects, nil
}

// insert creates a project. It returns a conflict if the key is taken, and the error of noTeam if the team does not
// exist.
func insert(ctx context.Context, tx pgx.Tx, p Project) error {
	_, err := tx.Exec(ctx, `INSERT INTO project (id, key, name, description, team_id, visibility, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		p.ID, p.Key, p.Name, p.Description, p.TeamID, p.Visibility, p.CreatedAt)
	switch pgErr, _ := errors.AsType[*pgconn.PgError](err); {
	case err == nil:
		return nil
	case pgErr != nil && pgErr.ConstraintName == "project_key_key":
		return keyTaken(p.Key)
	case pgErr != nil && pgErr.ConstraintName == "project_team_id_fkey":
		return noTeam(*p.TeamID)
	default:
		return fmt.Errorf("create the project: %w", err)
	}
}

// save writes the changeable columns of a locked project.
func save(ctx context.Context, tx pgx.Tx, p Project) error {
	_, err := tx.Exec(ctx, `UPDATE project SET name = $2, description = $3, visibility = $4, archived_at = $5, visibility_version = $6 WHERE id = $1`,
		p.ID, p.Name, p.Description, p.Visibility, p.ArchivedAt, p.VisibilityVersion)
	if err != nil {
		return fmt.Errorf("save the project: %w", err)
	}
	return nil
}
