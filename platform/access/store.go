package access

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// lock waits for the end of every open transaction that has inserted rows of the project, and blocks further inserts
// until tx ends: the trigger of the inserts takes the same lock in shared mode. Later statements of tx therefore see
// every row that was inserted before.
func lock(ctx context.Context, tx pgx.Tx, projectID string) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' project visibility ' || $1, 0))`, projectID)
	if err != nil {
		return fmt.Errorf("lock the visibility of the project: %w", err)
	}
	return nil
}

// note stores the change, unless a newer one is stored, and returns the newest stored change. Rows that are inserted
// later get the visibility of that change.
func note(ctx context.Context, tx pgx.Tx, c VisibilityChange) (VisibilityChange, error) {
	_, err := tx.Exec(ctx, `INSERT INTO project_visibility AS p (project_id, visibility, version) VALUES ($1, $2, $3)
		ON CONFLICT (project_id) DO UPDATE SET visibility = excluded.visibility, version = excluded.version
		WHERE p.version < excluded.version`, c.ProjectID, c.Visibility, c.Version)
	if err != nil {
		return VisibilityChange{}, fmt.Errorf("store the visibility of the project: %w", err)
	}
	newest := VisibilityChange{ProjectID: c.ProjectID}
	err = tx.QueryRow(ctx, `SELECT visibility, version FROM project_visibility WHERE project_id = $1`, c.ProjectID).
		Scan(&newest.Visibility, &newest.Version)
	if err != nil {
		return VisibilityChange{}, fmt.Errorf("read the visibility of the project: %w", err)
	}
	return newest, nil
}

// follow updates those rows of the project in one table that have an older visibility version than the change. It
// returns the ids of the updated rows. The parameter batch is the maximum number of rows.
func follow(ctx context.Context, tx pgx.Tx, table string, c VisibilityChange, batch int) ([]string, error) {
	name := pgx.Identifier{table}.Sanitize()
	rows, err := tx.Query(ctx, `UPDATE `+name+` SET visibility = $2, visibility_version = $3 WHERE id IN (
		SELECT id FROM `+name+` WHERE project_id = $1 AND visibility_version < $3 ORDER BY id LIMIT $4 FOR NO KEY UPDATE) RETURNING id`,
		c.ProjectID, c.Visibility, c.Version, batch)
	if err != nil {
		return nil, fmt.Errorf("update the visibility of the rows in %s: %w", table, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("update the visibility of the rows in %s: %w", table, err)
	}
	return ids, nil
}
