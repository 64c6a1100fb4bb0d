// Package team owns the teams, their members and their leads. Members of a team are editors of its projects; package
// account implements this rule (account.Memberships). The jobs service owns the quotas of teams.
//
// It promises: only members and admins see a team; only leads and admins change it; a team that has a project cannot be
// deleted. It also searches projects, teams and users by name and id, for GET /api/search.
package team

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// kind is the name of teams in errors and in the audit.
const kind = "team"

// MaxMembers is the maximum number of members of a team. It limits the size of responses, because GetTeam returns all
// members.
const MaxMembers = 500

// listedMembers is how many members of each team a list shows. With this number, the largest page of teams with the
// longest names fits into one message.
const listedMembers = 40

// Team is one team.
type Team struct {
	ID        string
	Key       string
	Name      string
	CreatedAt time.Time
	Members   []Member
	// MemberCount is the number of all members. In lists of teams, Members may have fewer.
	MemberCount int
}

// Member is a user in a team.
type Member struct {
	Username string `json:"username"`
	Role     string `json:"role"`
}

func keyTaken(key string) error {
	return fault.New(fault.Conflict, "team_exists", "team %s already exists", key)
}

func hasProjects(id string) error {
	return fault.New(fault.Conflict, "team_has_projects", "team %s cannot be deleted, because it has projects", id)
}

func full(id string) error {
	return fault.New(fault.Conflict, "team_full", "team %s already has %d members, the maximum; remove one first", id, MaxMembers)
}

func inTooMany(username string) error {
	return fault.New(fault.Conflict, "teams_limit", "%s is already in the maximum number of teams; remove the user from another team first", username)
}
