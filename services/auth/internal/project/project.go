// Package project owns projects and their members. Other services store the ids of projects and look them up here.
//
// It promises: a user who may not read a project sees nothing of it; a project always has an owner; a change of a
// role takes effect at the user's next call (account.Memberships). Other services copy the visibility of projects
// into their rows: a change of visibility succeeds once all services have confirmed it, and an interrupted change is
// completed later.
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

// kind is the name of projects in errors and in the audit.
const kind = "project"

// defaultKey is the key of the default project. A request that does not contain a project uses it.
const defaultKey = "default"

// The visibilities state who may read the content of a project in addition to its members: the members of its team, or
// all users.
const (
	visibleToTeam = "team"
	visibleToAll  = "all"
)

// roleOwner is the role that at least one member of each project has.
const roleOwner = "owner"

// Project is one project.
type Project struct {
	ID          string
	Key         string
	Name        string
	Description *string
	TeamID      *string
	// Visibility is visibleToTeam or visibleToAll.
	Visibility string
	// VisibilityVersion counts the changes of visibility.
	VisibilityVersion int64
	CreatedAt         time.Time
	// ArchivedAt is not nil if the project is archived: nothing in it may be changed until it is unarchived.
	ArchivedAt *time.Time
}

// Member is a user with a role in a project.
type Member struct {
	Username string
	Role     string
}

var errUnknown = errors.New("no such project")

// Find returns the project with this key or id. Keys contain no underscore, so a key cannot look like an id.
func Find(ctx context.Context, q pg.Querier, name string) (Project, error) {
	p, err := load(ctx, q, strings.HasPrefix(name, string(id.Project)+"_"), name)
	if errors.Is(err, errUnknown) {
		return Project{}, fault.Absentf(kind, name)
	}
	return p, err
}

func keyTaken(key string) error {
	return fault.New(fault.Conflict, "project_exists", "project %s already exists", key)
}

// noTeam returns the error for a team that does not exist or that the caller may not see.
func noTeam(teamID string) error {
	return fault.New(fault.Refused, "team", "no such team: %s", teamID)
}

func lastOwner(projectID string) error {
	return fault.New(fault.Conflict, "last_owner", "project %s must keep an owner; make another member an owner first", projectID)
}

func neverArchived() error {
	return fault.New(fault.Conflict, "default_project", "the default project cannot be archived; requests without a project use it")
}

// maxMembers is the maximum number of members of a project.
const maxMembers = 5000

func full(projectID string) error {
	return fault.New(fault.Conflict, "project_full", "project %s already has %d members, the maximum; remove one first", projectID, maxMembers)
}
