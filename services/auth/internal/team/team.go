// Package team owns the teams: who is in them, and who leads them. Members of a team are editors of its
// projects, which account.Memberships says; what a team may hold at once is told by jobs.
//
// It promises: who is not in a team sees nothing of it; members read it, leads and admins change it; a team
// that has a project is not removed.
package team

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// kind names teams in faults and in the audit.
const kind = "team"

// MaxMembers is how many people a team may have: a team is shown with all of them.
const MaxMembers = 500

// listedMembers is how many of them a list shows: the largest page, of teams with the longest names, fits into
// an answer.
const listedMembers = 40

// Team is one team.
type Team struct {
	ID        string
	Key       string
	Name      string
	CreatedAt time.Time
	Members   []Member
	// MemberCount counts them, also those that a list does not show.
	MemberCount int
}

// Member is a person in a team.
type Member struct {
	Username string `json:"username"`
	Role     string `json:"role"`
}

func keyTaken(key string) error {
	return fault.New(fault.Conflict, "team_exists", "there is a team %s already", key)
}

func hasProjects(id string) error {
	return fault.New(fault.Conflict, "team_has_projects", "team %s has projects", id)
}

func full(id string) error {
	return fault.New(fault.Conflict, "team_full", "team %s has %d members, which is all that it may have", id, MaxMembers)
}

func inTooMany(username string) error {
	return fault.New(fault.Conflict, "teams_limit", "%s is in as many teams as a person may be", username)
}
