package project

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// beginCopies records that each service must confirm a locked project's visibility.
func beginCopies(ctx context.Context, tx pgx.Tx, p Project, services []string) error {
	_, err := tx.Exec(ctx, `INSERT INTO project_visibility_change (project_id, service, version) SELECT $1, s, $3 FROM unnest($2::text[]) AS s
		ON CONFLICT (project_id, service) DO UPDATE SET version = excluded.version, tried_at = NULL`, p.ID, services, p.VisibilityVersion)
	if err != nil {
		return fmt.Errorf("queue the project's visibility: %w", err)
	}
	return nil
}

const copies = `SELECT p.id, p.visibility, p.visibility_version FROM project_visibility_change c JOIN project p ON p.id = c.project_id
	WHERE c.service = $1`

// openCopy returns the visibility of a project if the service has not confirmed it, and nil otherwise.
func openCopy(ctx context.Context, q pg.Querier, service, projectID string) (*pending, error) {
	var p pending
	err := q.QueryRow(ctx, copies+` AND c.project_id = $2`, service, projectID).Scan(&p.ProjectID, &p.Visibility, &p.Version)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nothing is pending
	}
	if err != nil {
		return nil, fmt.Errorf("load a pending visibility: %w", err)
	}
	return &p, nil
}

// openCopies returns the visibilities that a service has not confirmed, those with the oldest attempt first.
func openCopies(ctx context.Context, q pg.Querier, service string, limit int) ([]pending, error) {
	rows, err := q.Query(ctx, copies+` ORDER BY c.tried_at NULLS FIRST, c.project_id LIMIT $2`, service, limit)
	if err != nil {
		return nil, fmt.Errorf("list pending visibilities: %w", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pending])
	if err != nil {
		return nil, fmt.Errorf("list pending visibilities: %w", err)
	}
	return open, nil
}

// triedCopy records an attempt. If the attempt fails, the next sweep tries the project after all other projects.
func triedCopy(ctx context.Context, q pg.Querier, service, projectID string, now time.Time) error {
	_, err := q.Exec(ctx, `UPDATE project_visibility_change SET tried_at = $3 WHERE project_id = $1 AND service = $2`, projectID, service, now)
	if err != nil {
		return fmt.Errorf("record an attempt to send a project's visibility to %s: %w", service, err)
	}
	return nil
}

// endCopy deletes the row of a confirmed visibility, unless the visibility has changed again since.
func endCopy(ctx context.Context, q pg.Querier, service string, p pending) error {
	_, err := q.Exec(ctx, `DELETE FROM project_visibility_change WHERE project_id = $1 AND service = $2 AND version <= $3`, p.ProjectID, service, p.Version)
	if err != nil {
		return fmt.Errorf("record that %s confirmed a project's visibility: %w", service, err)
	}
	return nil
}
