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

// Membership is a role of the account in a project.
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
	// ByHand is a membership that an admin or a lead set; no sign-in changes it.
	ByHand = "hand"
	// ByProvider is a membership that a sign-in set from the groups of the OpenID provider.
	ByProvider = "oidc"
)

// memberships selects the roles of an account in projects: those it was given, and editor in the projects of its
// teams. The highest role per project counts.
const memberships = `
	SELECT project_id, (ARRAY['viewer', 'editor', 'owner'])[max(array_position(ARRAY['viewer', 'editor', 'owner'], role))]
	FROM (SELECT project_id, role FROM membership WHERE account_id = $1
		UNION ALL
		SELECT p.id, 'editor' FROM team_member t JOIN project p ON p.team_id = t.team_id WHERE t.account_id = $1) given
	GROUP BY project_id ORDER BY project_id`

// Memberships lists the account's roles in projects, ordered by project. It returns at most one more than a caller
// identity carries, so that the signer sees that there are more and marks the identity as cut.
func Memberships(ctx context.Context, q pg.Querier, accountID string) ([]Membership, error) {
	return collect(q.Query(ctx, memberships+` LIMIT $2`, accountID, authn.MaxProjects+1))
}

// Roles converts memberships to the form that identities carry.
func Roles(members []Membership) []authn.ProjectRole {
	roles := make([]authn.ProjectRole, 0, len(members))
	for _, m := range members {
		roles = append(roles, authn.ProjectRole{Project: m.ProjectID, Role: m.Role})
	}
	return roles
}

// maxAll bounds the result of AllMemberships; no account has more.
const maxAll = 50_000

// AllMemberships lists all of the account's roles in projects. Services call it if the identity's list is cut.
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

// FindByUsername finds an account by a username from a request; an unknown name is a fault.
func FindByUsername(ctx context.Context, q pg.Querier, username string) (Account, error) {
	a, err := ByUsername(ctx, q, username)
	if errors.Is(err, ErrUnknown) {
		return a, NotFound(username)
	}
	return a, err
}

// NotFound is the fault for a user who does not exist, or not in the place that was searched.
func NotFound(username string) error { return fault.Absentf("user", username) }

// Teams lists the teams that the account is in, and those of them that it leads.
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

// TeamKeys lists the keys of the teams that the account is in.
func TeamKeys(ctx context.Context, q pg.Querier, accountID string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT key FROM team JOIN team_member ON team_id = id WHERE account_id = $1 ORDER BY key LIMIT $2`,
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

// LoadMemberships sets the caller's current teams and roles in projects.
func LoadMemberships(ctx context.Context, q pg.Querier, c *authn.Caller) error {
	members, err := Memberships(ctx, q, c.Subject)
	if err != nil {
		return err
	}
	c.Projects = Roles(members)
	c.Teams, c.LeadOf, err = Teams(ctx, q, c.Subject)
	return err
}

// SyncTeams makes the account a member of the teams with these keys, which come from the OpenID provider, and
// removes it from other teams that an earlier sign-in put it in. Memberships set by hand stay as they are. It
// returns the keys that belong to no team and those beyond authn.MaxTeams.
func SyncTeams(ctx context.Context, tx pgx.Tx, accountID string, keys []string) (left []string, err error) {
	if err := lockAccount(ctx, tx, accountID); err != nil {
		return nil, err
	}
	keys = append([]string{}, keys...) // in Postgres a comparison with a null array is null
	_, err = tx.Exec(ctx, `DELETE FROM team_member USING team WHERE team.id = team_id AND account_id = $1 AND source = $2
		AND NOT team.key = ANY($3)`, accountID, ByProvider, keys)
	if err != nil {
		return nil, fmt.Errorf("leave teams: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO team_member (team_id, account_id, role, source)
		SELECT id, $1, $2, $3 FROM team WHERE key = ANY($4)
			AND NOT EXISTS (SELECT FROM team_member m WHERE m.team_id = team.id AND m.account_id = $1)
		ORDER BY key LIMIT greatest(0, $5 - (SELECT count(*) FROM team_member WHERE account_id = $1))`,
		accountID, TeamMember, ByProvider, keys, authn.MaxTeams)
	if err != nil {
		return nil, fmt.Errorf("join teams: %w", err)
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

// JoinTeam sets the account's role in a team by hand. It returns false if the account is not in the team and
// already in authn.MaxTeams others.
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
		return false, fmt.Errorf("join a team: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// lockAccount serializes changes to the account's memberships until the transaction ends. Sign-ins can still read
// the account.
func lockAccount(ctx context.Context, tx pgx.Tx, accountID string) error {
	if _, err := tx.Exec(ctx, `SELECT FROM account WHERE id = $1 FOR NO KEY UPDATE`, accountID); err != nil {
		return fmt.Errorf("lock the account: %w", err)
	}
	return nil
}
