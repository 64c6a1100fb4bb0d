package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads runs. The transactions of jobs write them.
type Store struct{}

const runSelect = `SELECT id, job_id, name, owner_id, owner_name, project_id, project, visibility, visibility_version, state, attempts,
	recipe_lock, bindings, recipe_digest, spec_digest, end_reason, created_at, started_at, ended_at, parents FROM run`

const visible = ` WHERE ($1 OR owner_id = $2 OR (visibility = 'all' AND $2 <> '') OR project_id = ANY($3))`

func scan(row pgx.CollectableRow) (*Run, error) {
	var r Run
	err := row.Scan(&r.ID, &r.JobID, &r.Name, &r.OwnerID, &r.OwnerName, &r.ProjectID, &r.Project, &r.Visibility, &r.VisibilityVersion, &r.State,
		&r.Attempts, &r.RecipeLock, &r.Bindings, &r.RecipeDigest, &r.SpecDigest, &r.EndReason, &r.CreatedAt,
		&r.StartedAt, &r.EndedAt, &r.Parents)
	return &r, err
}

// Get returns a run within the scope, by its own or its job's id.
func (s Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Run, error) {
	rows, err := q.Query(ctx, runSelect+visible+` AND (id = $4 OR job_id = $4)`, scope.Admin, scope.UserID, scope.Projects, id)
	if err != nil {
		return nil, fmt.Errorf("load run: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(KindOfID(id), id)
	}
	if err != nil {
		return nil, fmt.Errorf("load run: %w", err)
	}
	return r, nil
}

// List returns the runs within the scope, newest first, and live ones only if live is set.
func (s Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, live bool, p request.Page) ([]*Run, error) {
	rows, err := q.Query(ctx, runSelect+visible+` AND ($4 OR ended_at IS NOT NULL)
		ORDER BY created_at DESC, id DESC LIMIT $5 OFFSET $6`,
		scope.Admin, scope.UserID, scope.Projects, live, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	runs, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	return runs, nil
}

// Template is the serialized AttemptSpec shared by a job's attempts; opaque here.
type Template struct {
	JobID string
	Spec  []byte
}

// StartingFrom returns the live jobs whose spec starts from any version of a model, oldest first.
func (Store) StartingFrom(ctx context.Context, q pg.Querier, model string) ([]Template, error) {
	rows, err := q.Query(ctx, `SELECT id, template FROM job WHERE ended_at IS NULL AND starts_with(spec->'bindings'->>'model', $1 || '@')
		ORDER BY created_at, id`, model)
	if err != nil {
		return nil, fmt.Errorf("find the users of a model: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Template, err error) { return t, row.Scan(&t.JobID, &t.Spec) })
	if err != nil {
		return nil, fmt.Errorf("find the users of a model: %w", err)
	}
	return found, nil
}
