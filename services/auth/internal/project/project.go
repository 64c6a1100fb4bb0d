// Package project owns what work is grouped by: projects, and who belongs to them. The rows of other
// services name a project and ask here which one that is.
//
// It promises: who may not read a project sees nothing of it; a project keeps an owner; what a person may do
// in projects counts at his next call (account.Memberships). The rows of other services repeat the visibility of
// their project: whoever changes it is answered once they all do, and a change that was interrupted is finished.
package project

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// kind names projects in faults and in the audit.
const kind = "project"

// defaultKey is the project of those who name none.
const defaultKey = "default"

// The visibilities: who besides the members may read what belongs to a project.
const (
	visibleToTeam = "team"
	visibleToAll  = "all"
)

// roleOwner is the role that each project has somebody in.
const roleOwner = "owner"

// Project is one project.
type Project struct {
	ID          string
	Key         string
	Name        string
	Description *string
	TeamID      *string
	// Visibility says who besides the members may read what belongs to it: `team` or `all`.
	Visibility string
	// VisibilityVersion counts the changes of visibility.
	VisibilityVersion int64
	CreatedAt         time.Time
	// ArchivedAt is set where nothing new is made in it any more.
	ArchivedAt *time.Time
}

// Member is a person who was put into a project.
type Member struct {
	Username string
	Role     string
}

var errUnknown = errors.New("no such project")

// Find answers the project of that key or id. Keys have no underscore, so none looks like an id.
func Find(ctx context.Context, q pg.Querier, name string) (Project, error) {
	p, err := load(ctx, q, strings.HasPrefix(name, string(id.Project)+"_"), name)
	if errors.Is(err, errUnknown) {
		return Project{}, fault.Absentf(kind, name)
	}
	return p, err
}

func keyTaken(key string) error {
	return fault.New(fault.Conflict, "project_exists", "there is a project %s already", key)
}

// noTeam is the answer for a team that is not there and for one that the caller may not know of.
func noTeam(teamID string) error {
	return fault.New(fault.Refused, "team", "no such team: %s", teamID)
}

func lastOwner(projectID string) error {
	return fault.New(fault.Conflict, "last_owner", "project %s must keep an owner", projectID)
}

func neverArchived() error {
	return fault.New(fault.Conflict, "default_project", "the default project is not archived: it is where things belong that name none")
}

// maxMembers is how many people may be put into a project.
const maxMembers = 5000

func full(projectID string) error {
	return fault.New(fault.Conflict, "project_full", "project %s has %d members, which is all that it may have", projectID, maxMembers)
}
