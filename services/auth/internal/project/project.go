// Package project owns projects and their members. The rows of other services name a project and resolve it here.
//
// It promises: a user who may not read a project sees nothing of it; a project keeps an owner; a change of a role takes
// effect at the user's next call (account.Memberships). The rows of other services copy the visibility of their project:
// a change of visibility succeeds once all services have confirmed it, and an interrupted change is finished later.
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

// defaultKey is the key of the project that is used if none is named.
const defaultKey = "default"

// The visibilities: who may read the content of a project besides its members.
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
	// Visibility states who may read the project's content besides its members: `team` or `all`.
	Visibility string
	// VisibilityVersion counts the changes of visibility.
	VisibilityVersion int64
	CreatedAt         time.Time
	// ArchivedAt is set if nothing new may be created in the project.
	ArchivedAt *time.Time
}

// Member is a user with a role in a project.
type Member struct {
	Username string
	Role     string
}

var errUnknown = errors.New("no such project")

// Find returns the project with that key or id. Keys contain no underscore, so a key cannot look like an id.
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

// noTeam is the error both for an unknown team and for one that the caller may not see.
func noTeam(teamID string) error {
	return fault.New(fault.Refused, "team", "no such team: %s", teamID)
}

func lastOwner(projectID string) error {
	return fault.New(fault.Conflict, "last_owner", "project %s must keep an owner", projectID)
}

func neverArchived() error {
	return fault.New(fault.Conflict, "default_project", "the default project cannot be archived; requests that name no project use it")
}

// maxMembers is the maximum number of members of a project.
const maxMembers = 5000

func full(projectID string) error {
	return fault.New(fault.Conflict, "project_full", "project %s has %d members; this is the maximum", projectID, maxMembers)
}
