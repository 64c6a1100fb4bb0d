// Package team owns the teams, their members and their leads. Members of a team are editors of its projects; package
// account implements that (account.Memberships). The quotas of teams belong to jobs.
//
// It promises: only members and admins see a team; only leads and admins change it; a team that has a project cannot be
// deleted.
package team

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// kind names teams in faults and in the audit.
const kind = "team"

// MaxMembers is the maximum number of members of a team: a team is shown with all of them.
const MaxMembers = 500

// listedMembers is how many members of a team a list shows: the largest page, of teams with the longest names, fits into
// one message.
const listedMembers = 40

// Team is one team.
type Team struct {
	ID        string
	Key       string
	Name      string
	CreatedAt time.Time
	Members   []Member
	// MemberCount counts all members, including those that a list does not show.
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
	return fault.New(fault.Conflict, "team_has_projects", "team %s has projects", id)
}

func full(id string) error {
	return fault.New(fault.Conflict, "team_full", "team %s has %d members; this is the maximum", id, MaxMembers)
}

func inTooMany(username string) error {
	return fault.New(fault.Conflict, "teams_limit", "%s is already in the maximum number of teams", username)
}
