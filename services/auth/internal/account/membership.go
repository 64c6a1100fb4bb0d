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

// Who puts a person into a team.
const (
	// ByHand is an admin or a lead; no sign-in changes it.
	ByHand = "hand"
	// ByProvider is the provider of a sign-in, by the groups that it tells of.
	ByProvider = "oidc"
)

// roles of an account in projects: those it was given, and editor in the projects of its teams. The highest
// one counts.
const memberships = `
	SELECT project_id, (ARRAY['viewer', 'editor', 'owner'])[max(array_position(ARRAY['viewer', 'editor', 'owner'], role))]
	FROM (SELECT project_id, role FROM membership WHERE account_id = $1
		UNION ALL
		SELECT p.id, 'editor' FROM team_member t JOIN project p ON p.team_id = t.team_id WHERE t.account_id = $1) given
	GROUP BY project_id ORDER BY project_id`

// Memberships lists the account's roles in projects, by project: one more than a caller identity carries
// at most, so that its signer sees that there are more and marks it as cut.
func Memberships(ctx context.Context, q pg.Querier, accountID string) ([]Membership, error) {
	return collect(q.Query(ctx, memberships+` LIMIT $2`, accountID, authn.MaxProjects+1))
}

// Roles are memberships as identities carry them.
func Roles(members []Membership) []authn.ProjectRole {
	roles := make([]authn.ProjectRole, 0, len(members))
	for _, m := range members {
		roles = append(roles, authn.ProjectRole{Project: m.ProjectID, Role: m.Role})
	}
	return roles
}

// maxAll bounds what AllMemberships answers: nobody has more.
const maxAll = 50_000

// AllMemberships lists all of the account's roles in projects, for those who were told that they are cut.
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

// Named finds an account by the name that a person gave for it; one that is not there is a fault.
func Named(ctx context.Context, q pg.Querier, username string) (Account, error) {
	a, err := ByUsername(ctx, q, username)
	if errors.Is(err, ErrUnknown) {
		return a, Absent(username)
	}
	return a, err
}

// Absent says that nobody of this name is there, or not where he was looked for.
func Absent(username string) error { return fault.Absentf("user", username) }

// Teams lists the teams that the account is in and those of them that it leads.
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

// Belong fills in what the caller belongs to as it is now: his teams, and his roles in projects.
func Belong(ctx context.Context, q pg.Querier, c *authn.Caller) error {
	members, err := Memberships(ctx, q, c.Subject)
	if err != nil {
		return err
	}
	c.Projects = Roles(members)
	c.Teams, c.LeadOf, err = Teams(ctx, q, c.Subject)
	return err
}

// SyncTeams puts the account into the teams of these keys as a member, on the word of the provider that it
// signed in by, and takes it out of those that only an earlier word of the provider had put it in. What a hand
// put in stays as it is. Keys of no team are answered back; so are those past what a person may be in.
func SyncTeams(ctx context.Context, tx pgx.Tx, accountID string, keys []string) (left []string, err error) {
	if err := lockAccount(ctx, tx, accountID); err != nil {
		return nil, err
	}
	keys = append([]string{}, keys...) // Postgres compares with no null array
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

// JoinTeam puts the account into a team by hand, in this role. It is false where it is in as many teams as a
// person may be.
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

// lockAccount lets one change of what the account belongs to at a time happen, until the transaction ends.
// Signing in reads on.
func lockAccount(ctx context.Context, tx pgx.Tx, accountID string) error {
	if _, err := tx.Exec(ctx, `SELECT FROM account WHERE id = $1 FOR NO KEY UPDATE`, accountID); err != nil {
		return fmt.Errorf("lock the account: %w", err)
	}
	return nil
}
