package account

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Membership is the role of an account in a project.
type Membership struct {
	ProjectID string
	Role      string
}

// The roles in a team.
const (
	TeamMember = "member"
	TeamLead   = "lead"
)

// The sources of a team membership.
const (
	// ByHand marks a membership that an admin or a team lead set. Sign-ins do not change it.
	ByHand = "hand"
	// ByProvider marks a membership that a sign-in set from the groups of the OpenID provider.
	ByProvider = "oidc"
)

// memberships selects the highest role of an account in each project. An account has the role of its own membership,
// and the role editor in the projects of its teams.
const memberships = `
	SELECT project_id, (ARRAY['viewer', 'editor', 'owner'])[max(array_position(ARRAY['viewer', 'editor', 'owner'], role))]
	FROM (SELECT project_id, role FROM membership WHERE account_id = $1
		UNION ALL
		SELECT p.id, 'editor' FROM team_member t JOIN project p ON p.team_id = t.team_id WHERE t.account_id = $1) given
	GROUP BY project_id ORDER BY project_id`

// Memberships lists the account's roles in projects, ordered by project. It returns at most authn.MaxProjects+1
// roles, one more than a caller identity can contain. The extra role shows that the list must be cut.
func Memberships(ctx context.Context, q pg.Querier, accountID string) ([]Membership, error) {
	return collect(q.Query(ctx, memberships+` LIMIT $2`, accountID, authn.MaxProjects+1))
}

// Roles converts memberships to the type that caller identities use.
func Roles(members []Membership) []authn.ProjectRole {
	roles := make([]authn.ProjectRole, 0, len(members))
	for _, m := range members {
		roles = append(roles, authn.ProjectRole{Project: m.ProjectID, Role: m.Role})
	}
	return roles
}

// maxAll is the maximum number of roles that AllMemberships returns.
const maxAll = 50_000

// AllMemberships lists all of the account's roles in projects, at most maxAll, ordered by project. It is needed if the
// list in a caller identity was cut.
func AllMemberships(ctx context.Context, q pg.Querier, accountID string) ([]Membership, error) {
	return collect(q.Query(ctx, memberships+` LIMIT $2`, accountID, maxAll))
}

func collect(rows pgx.Rows, err error) ([]Membership, error) {
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Membership])
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	return list, nil
}

// FindByUsername returns the account with this username, or the error of NotFound if no account has this username.
func FindByUsername(ctx context.Context, q pg.Querier, username string) (Account, error) {
	a, err := ByUsername(ctx, q, username)
	if errors.Is(err, ErrUnknown) {
		return a, NotFound(username)
	}
	return a, err
}

// NotFound returns the error for a user who does not exist, or who is not a member of the team or project.
func NotFound(username string) error { return fault.Absentf("user", username) }

// Teams returns the ids of the teams that the account is in, and the ids of the teams that it leads.
func Teams(ctx context.Context, q pg.Querier, accountID string) (in, led []string, err error) {
	rows, err := q.Query(ctx, `SELECT team_id, role FROM team_member WHERE account_id = $1 ORDER BY team_id LIMIT $2`,
		accountID, authn.MaxTeams)
	if err != nil {
		return nil, nil, fmt.Errorf("list teams: %w", err)
	}
	var team, role string
	_, err = pgx.ForEachRow(rows, []any{&team, &role}, func() error {
		in = append(in, team)
		if role == TeamLead {
			led = append(led, team)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list teams: %w", err)
	}
	return in, led, nil
}

// WithTeams is an account with the keys of its teams.
type WithTeams struct {
	Account

	Teams []string
}

// NewLoader returns a loader that combines concurrent lookups of accounts by id into one query.
func NewLoader(q pg.Querier) *pg.Loader[string, WithTeams] {
	return pg.NewLoader(func(ctx context.Context, ids []string) (map[string]WithTeams, error) {
		return loadWithTeams(ctx, q, ids)
	})
}

// loadWithTeams returns the accounts that have one of these ids. If there is only one id, it passes this id as text,
// not as an array: Postgres plans a statement with an array parameter again at every call.
func loadWithTeams(ctx context.Context, q pg.Querier, ids []string) (map[string]WithTeams, error) {
	wanted, of := `ANY($1::text[])`, any(ids)
	if len(ids) == 1 {
		wanted, of = `$1`, ids[0]
	}
	rows, err := q.Query(ctx, `SELECT `+columns+`, ARRAY(SELECT key FROM team JOIN team_member ON team_id = team.id
			WHERE account_id = account.id ORDER BY key LIMIT $2)
		FROM account WHERE id = `+wanted, of, authn.MaxTeams)
	if err != nil {
		return nil, fmt.Errorf("load accounts with their teams: %w", err)
	}
	defer rows.Close()
	found := make(map[string]WithTeams, len(ids))
	for rows.Next() {
		var a WithTeams
		if a.Account, err = one(rows, &a.Teams); err != nil {
			return nil, err
		}
		found[a.ID] = a
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("load accounts with their teams: %w", err)
	}
	return found, nil
}

// TeamKeys lists the keys of the teams that the account is in.
func TeamKeys(ctx context.Context, q pg.Querier, accountID string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT key FROM team JOIN team_member ON team_id = team.id WHERE account_id = $1 ORDER BY key LIMIT $2`,
		accountID, authn.MaxTeams)
	if err != nil {
		return nil, fmt.Errorf("list teams: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list teams: %w", err)
	}
	return keys, nil
}

// LoadMemberships reads the current memberships of the caller and sets Projects, Teams and LeadOf of c.
func LoadMemberships(ctx context.Context, q pg.Querier, c *authn.Caller) error {
	members, err := Memberships(ctx, q, c.Subject)
	if err != nil {
		return err
	}
	c.Projects = Roles(members)
	c.Teams, c.LeadOf, err = Teams(ctx, q, c.Subject)
	return err
}

// SyncTeams applies the team keys that come from the groups of the OpenID provider. It adds the account to the teams
// with these keys, and removes it from the other teams to which an earlier sign-in added it. Memberships set by hand
// stay unchanged. SyncTeams returns the keys that had no effect, either because no team has the key or because the
// account is already in authn.MaxTeams teams.
func SyncTeams(ctx context.Context, tx pgx.Tx, accountID string, keys []string) (left []string, err error) {
	if err := lockAccount(ctx, tx, accountID); err != nil {
		return nil, err
	}
	keys = append([]string{}, keys...) // in Postgres a comparison with a null array is null
	_, err = tx.Exec(ctx, `DELETE FROM team_member USING team WHERE team.id = team_id AND account_id = $1 AND source = $2
		AND NOT team.key = ANY($3)`, accountID, ByProvider, keys)
	if err != nil {
		return nil, fmt.Errorf("remove the account from teams: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO team_member (team_id, account_id, role, source)
		SELECT id, $1, $2, $3 FROM team WHERE key = ANY($4)
			AND NOT EXISTS (SELECT FROM team_member m WHERE m.team_id = team.id AND m.account_id = $1)
		ORDER BY key LIMIT greatest(0, $5 - (SELECT count(*) FROM team_member WHERE account_id = $1))`,
		accountID, TeamMember, ByProvider, keys, authn.MaxTeams)
	if err != nil {
		return nil, fmt.Errorf("add the account to teams: %w", err)
	}
	in, err := TeamKeys(ctx, tx, accountID)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if !slices.Contains(in, key) {
			left = append(left, key)
		}
	}
	return left, nil
}

// JoinTeam adds the account to a team, or changes its role there, and marks the membership ByHand. It returns false
// if the account would be in more than authn.MaxTeams teams.
func JoinTeam(ctx context.Context, tx pgx.Tx, teamID, accountID, role string) (bool, error) {
	if err := lockAccount(ctx, tx, accountID); err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, `INSERT INTO team_member (team_id, account_id, role, source)
		SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT FROM team_member WHERE team_id = $1 AND account_id = $2)
			OR (SELECT count(*) FROM team_member WHERE account_id = $2) < $5
		ON CONFLICT (account_id, team_id) DO UPDATE SET role = excluded.role, source = excluded.source`,
		teamID, accountID, role, ByHand, authn.MaxTeams)
	if err != nil {
		return false, fmt.Errorf("add the account to the team: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// lockAccount lets only one transaction at a time change the account's team memberships. Transactions that take no lock
// can still read the account.
func lockAccount(ctx context.Context, tx pgx.Tx, accountID string) error {
	if _, err := tx.Exec(ctx, `SELECT FROM account WHERE id = $1 FOR NO KEY UPDATE`, accountID); err != nil {
		return fmt.Errorf("lock the account: %w", err)
	}
	return nil
}
