package team

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

// visible is the WHERE condition of every read by a user. The function seen returns the arguments of this condition,
// followed by further arguments.
const visible = `($1 OR t.id = ANY($2))`

func seen(s authn.Scope, more ...any) []any {
	return append([]any{s.Admin, s.TeamsRead}, more...)
}

// columns selects a team with all its members, leads first. For lists, the constant listed selects only the first few.
const (
	columns = begin + end
	listed  = begin + ` ORDER BY 2, 1, 3 LIMIT $5` + end
	begin   = `t.id, t.key, t.name, t.created_at, (SELECT count(*) FROM team_member m WHERE m.team_id = t.id), coalesce((
	SELECT jsonb_agg(jsonb_build_object('username', m.username, 'role', m.role) ORDER BY m.role, m.username, m.id)
	FROM (SELECT a.username, m.role, a.id FROM team_member m JOIN account a ON a.id = m.account_id WHERE m.team_id = t.id`
	end = `) m), '[]')`
	// bare selects a team without its members.
	bare = `id, key, name, created_at, 0, '[]'::jsonb`
)

func scan(row pgx.CollectableRow) (t Team, err error) {
	return t, row.Scan(&t.ID, &t.Key, &t.Name, &t.CreatedAt, &t.MemberCount, &t.Members)
}

// get returns a team that callers with this scope may read. A hidden team gives the same error as an unknown one.
func get(ctx context.Context, q pg.Querier, s authn.Scope, id string) (Team, error) {
	return one(ctx, q, id, `SELECT `+columns+` FROM team t WHERE `+visible+` AND t.id = $3`, seen(s, id)...)
}

// lock loads a team that callers with this scope may read, and blocks other changes until the transaction ends.
func lock(ctx context.Context, tx pgx.Tx, s authn.Scope, id string) (Team, error) {
	return one(ctx, tx, id, `SELECT `+columns+` FROM team t WHERE `+visible+` AND t.id = $3 FOR NO KEY UPDATE OF t`, seen(s, id)...)
}

// find returns the team with this key or id, without its members.
func find(ctx context.Context, q pg.Querier, name string) (Team, error) {
	return one(ctx, q, name, `SELECT `+bare+` FROM team WHERE id = $1 OR key = $1`, name)
}

func one(ctx context.Context, q pg.Querier, name, sql string, args ...any) (Team, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return Team{}, fmt.Errorf("load the team: %w", err)
	}
	t, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return Team{}, fault.Absentf(kind, name)
	}
	if err != nil {
		return Team{}, fmt.Errorf("load the team: %w", err)
	}
	return t, nil
}

// list returns the teams that callers with this scope may read, ordered by key. Of each team, it returns only the first
// listedMembers members.
func list(ctx context.Context, q pg.Querier, s authn.Scope, p request.Page) ([]Team, error) {
	return many(q.Query(ctx, `SELECT `+listed+` FROM team t WHERE `+visible+` ORDER BY t.key LIMIT $3 OFFSET $4`,
		seen(s, p.FetchLimit(), p.Offset, listedMembers)...))
}

// all returns all teams, ordered by key, without their members.
func all(ctx context.Context, q pg.Querier, limit, offset int32) ([]Team, error) {
	return many(q.Query(ctx, `SELECT `+bare+` FROM team ORDER BY key LIMIT $1 OFFSET $2`, limit, offset))
}

func many(rows pgx.Rows, err error) ([]Team, error) {
	if err != nil {
		return nil, fmt.Errorf("list teams: %w", err)
	}
	teams, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("list teams: %w", err)
	}
	return teams, nil
}

// insert creates a team. It returns a conflict if the key is taken.
func insert(ctx context.Context, tx pgx.Tx, t Team) error {
	_, err := tx.Exec(ctx, `INSERT INTO team (id, key, name, created_at) VALUES ($1, $2, $3, $4)`, t.ID, t.Key, t.Name, t.CreatedAt)
	if violates(err, "team_key_key") {
		return keyTaken(t.Key)
	}
	if err != nil {
		return fmt.Errorf("create the team: %w", err)
	}
	return nil
}

func rename(ctx context.Context, tx pgx.Tx, id, name string) error {
	if _, err := tx.Exec(ctx, `UPDATE team SET name = $2 WHERE id = $1`, id, name); err != nil {
		return fmt.Errorf("rename the team: %w", err)
	}
	return nil
}

// remove deletes a team with its memberships. It returns a conflict if the team has a project.
func remove(ctx context.Context, tx pgx.Tx, id string) error {
	tag, err := tx.Exec(ctx, `DELETE FROM team WHERE id = $1`, id)
	switch {
	case violates(err, "project_team_id_fkey"):
		return hasProjects(id)
	case err != nil:
		return fmt.Errorf("delete the team: %w", err)
	case tag.RowsAffected() == 0:
		return fault.Absentf(kind, id)
	}
	return nil
}

// leave removes a user from a team and returns the former role; it is empty if the user was not a member.
func leave(ctx context.Context, tx pgx.Tx, teamID, accountID string) (role string, err error) {
	err = tx.QueryRow(ctx, `DELETE FROM team_member WHERE team_id = $1 AND account_id = $2 RETURNING role`, teamID, accountID).Scan(&role)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("remove the member: %w", err)
	}
	return role, nil
}

// accounts returns a page of the accounts, ordered by username.
func accounts(ctx context.Context, q pg.Querier, limit, offset int32) ([]person, error) {
	rows, err := q.Query(ctx, `SELECT id, username, disabled_at IS NOT NULL FROM account ORDER BY username, id LIMIT $1 OFFSET $2`, limit, offset)
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	people, err := pgx.CollectRows(rows, pgx.RowToStructByPos[person])
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	return people, nil
}

func violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint
}
