package access

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// DefaultProject is the project of things created without one. Every user may add to it.
const DefaultProject = "default"

// Visible is the SQL ownership filter of every read. Its arguments are those returned by Args.
const Visible = `($1 OR owner_id = $2 OR (visibility = 'all' AND $2 <> '') OR project_id = ANY($3))`

// Args returns the arguments of Visible, followed by more.
func Args(scope authn.Scope, more ...any) []any {
	return append([]any{scope.Admin, scope.UserID, scope.Projects}, more...)
}

// ServiceScope returns the scope of the service itself, which sees every row.
func ServiceScope() authn.Scope { return authn.Scope{Admin: true, Projects: []string{}} }

// Owner is the user and the project that own a row.
type Owner struct {
	UserID     string `db:"owner_id"`
	UserName   string `db:"owner_name"`
	ProjectID  string
	Project    string // its key
	Visibility string
	// VisibilityVersion is the version of the project's visibility at the time the row is inserted.
	VisibilityVersion int64 `db:"-"`
}

// Seen reports whether the scope may read rows with this owner.
func (o Owner) Seen(s authn.Scope) bool { return s.Sees(o.UserID, o.ProjectID, o.Visibility) }

// Require returns an error if the called method needs more than the scope grants on the thing.
func (o Owner) Require(s authn.Scope, kind, id string) error {
	return s.Require(o.UserID, o.ProjectID, kind, id)
}

// Project is the project of a row.
type Project struct {
	ID, Key, Visibility string
	VisibilityVersion   int64
	Archived            bool
}

// Projects finds projects by key. It returns nil for an unknown key.
type Projects interface {
	Project(ctx context.Context, key string) (*Project, error)
}

// OwnerFor returns the owner of what the caller creates in the project. The caller must have the permission that the called
// method needs, except in the default project. The project must not be archived.
func OwnerFor(ctx context.Context, projects Projects, key string) (Owner, error) {
	c, err := authn.CallerOf(ctx).RequireUser()
	if err != nil {
		return Owner{}, err
	}
	if key == "" {
		key = DefaultProject
	}
	p, err := projects.Project(ctx, key)
	if err != nil {
		return Owner{}, fmt.Errorf("find the project: %w", err)
	}
	scope := authn.ScopeOf(ctx)
	if p == nil || !scope.Sees("", p.ID, p.Visibility) {
		return Owner{}, fault.New(fault.Refused, "project", "no such project: %s", key)
	}
	if p.Key != DefaultProject && !scope.Grants("", p.ID) {
		return Owner{}, fault.New(fault.Forbidden, "not_editor", "only editors of project %s may add to it", p.Key)
	}
	if p.Archived {
		return Owner{}, fault.New(fault.Conflict, "project_archived", "project %s is archived", p.Key)
	}
	return Owner{
		UserID: c.Subject, UserName: c.Username, ProjectID: p.ID, Project: p.Key, Visibility: p.Visibility, VisibilityVersion: p.VisibilityVersion,
	}, nil
}
