package project

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// members returns the members of a project, ordered by username.
func members(ctx context.Context, q pg.Querier, projectID string, p request.Page) ([]Member, error) {
	rows, err := q.Query(ctx, `SELECT a.username, m.role FROM membership m JOIN account a ON a.id = m.account_id
		WHERE m.project_id = $1 ORDER BY a.username, a.id LIMIT $2 OFFSET $3`, projectID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list the members: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Member])
	if err != nil {
		return nil, fmt.Errorf("list the members: %w", err)
	}
	return list, nil
}

// roleOf returns the role of a user in a locked project; it is empty if the user is not a member.
func roleOf(ctx context.Context, tx pgx.Tx, projectID, accountID string) (role string, err error) {
	err = tx.QueryRow(ctx, `SELECT role FROM membership WHERE project_id = $1 AND account_id = $2`, projectID, accountID).Scan(&role)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("load the member: %w", err)
	}
	return role, nil
}

// put gives a user a role in a locked project. It returns false if the project is full.
func put(ctx context.Context, tx pgx.Tx, projectID, accountID, role string) (bool, error) {
	tag, err := tx.Exec(ctx, `INSERT INTO membership (project_id, account_id, role)
		SELECT $1, $2, $3 WHERE EXISTS (SELECT FROM membership WHERE project_id = $1 AND account_id = $2)
			OR (SELECT count(*) FROM membership WHERE project_id = $1) < $4
		ON CONFLICT (account_id, project_id) DO UPDATE SET role = excluded.role`, projectID, accountID, role, maxMembers)
	if err != nil {
		return false, fmt.Errorf("store the member: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

func leave(ctx context.Context, tx pgx.Tx, projectID, accountID string) error {
	if _, err := tx.Exec(ctx, `DELETE FROM membership WHERE project_id = $1 AND account_id = $2`, projectID, accountID); err != nil {
		return fmt.Errorf("remove the member: %w", err)
	}
	return nil
}

// owned reports whether a locked project has an owner.
func owned(ctx context.Context, tx pgx.Tx, projectID string) (yes bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM membership WHERE project_id = $1 AND role = $2)`, projectID, roleOwner).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("check whether the project has an owner: %w", err)
	}
	return yes, nil
}
