package run

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

// Store reads runs. Package job writes them together with their jobs.
type Store struct{}

const runSelect = `SELECT id, job_id, name, owner_id, owner_name, project_id, project, visibility, visibility_version, state, attempts,
	recipe_lock, bindings, recipe_digest, spec_digest, end_reason, created_at, started_at, ended_at, parents FROM run`

// Get returns a run within the scope, by its own or its job's id.
func (s Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Run, error) {
	r, err := pg.One[Run](q.Query(ctx, runSelect+` WHERE `+access.Visible+` AND (id = $4 OR job_id = $4)`, access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(KindOfID(id), id)
	}
	if err != nil {
		return nil, fmt.Errorf("load run: %w", err)
	}
	return r, nil
}

// List returns the runs within the scope, newest first. Runs that have not ended are included only if live is set.
func (s Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, live bool, p request.Page) ([]*Run, error) {
	runs, err := pg.All[Run](q.Query(ctx, runSelect+` WHERE `+access.Visible+` AND ($4 OR ended_at IS NOT NULL)
		ORDER BY created_at DESC, id DESC LIMIT $5 OFFSET $6`, access.Args(scope, live, p.FetchLimit(), p.Offset)...))
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

// Template is a job with the serialized AttemptSpec that its attempts share.
type Template struct {
	JobID string
	Spec  []byte
}

// StartingFrom returns the jobs that have not ended and whose spec starts from any version of a model, oldest first.
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
