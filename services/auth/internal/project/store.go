package project

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// load finds a project by its id or by its key.
func load(ctx context.Context, q pg.Querier, byID bool, name string) (Project, error) {
	where := `key = $1`
	if byID {
		where = `id = $1`
	}
	var p Project
	err := q.QueryRow(ctx, `SELECT id, key, name, visibility FROM project WHERE `+where, name).Scan(&p.ID, &p.Key, &p.Name, &p.Visibility)
	if errors.Is(err, pgx.ErrNoRows) {
		return Project{}, errUnknown
	}
	if err != nil {
		return Project{}, fmt.Errorf("load the project: %w", err)
	}
	return p, nil
}
