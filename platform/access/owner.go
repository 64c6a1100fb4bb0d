package access

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// DefaultProject is the key of the project that is used if a request specifies none. Every user may add to it.
const DefaultProject = "default"

// Visible is the WHERE condition of every read by a user. Args returns its arguments.
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
	Project    string // the project's key
	Visibility string
	// VisibilityVersion is the version of Visibility. Only OwnerFor sets it, for the insert of a row.
	VisibilityVersion int64 `db:"-"`
}

// Seen reports whether a caller with the scope may read rows with this owner.
func (o Owner) Seen(s authn.Scope) bool { return s.Sees(o.UserID, o.ProjectID, o.Visibility) }

// Require returns a 403 error if the scope does not permit the called method on a row with this owner. kind and id
// identify the row in the error.
func (o Owner) Require(s authn.Scope, kind, id string) error {
	return s.Require(o.UserID, o.ProjectID, kind, id)
}

// Project is a project as auth reports it.
type Project struct {
	ID, Key, Visibility string
	VisibilityVersion   int64
	Archived            bool
}

// Projects looks up projects by key. For an unknown key it returns nil and no error.
type Projects interface {
	Project(ctx context.Context, key string) (*Project, error)
}

// OwnerFor returns the owner of a row that the caller creates in the project; an empty key means DefaultProject. In
// any other project the caller must have the permission that the called method needs. The project must not be
// archived.
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
		return Owner{}, fmt.Errorf("look up project %s: %w", key, err)
	}
	scope := authn.ScopeOf(ctx)
	if p == nil || !scope.Sees("", p.ID, p.Visibility) {
		return Owner{}, fault.New(fault.Refused, "project", "no such project: %s", key)
	}
	if p.Key != DefaultProject && !scope.Grants("", p.ID) {
		return Owner{}, fault.New(fault.Forbidden, "not_editor", "only editors of project %s may add to it", p.Key)
	}
	if p.Archived {
		return Owner{}, authn.ProjectArchived(p.Key)
	}
	return Owner{
		UserID: c.Subject, UserName: c.Username, ProjectID: p.ID, Project: p.Key, Visibility: p.Visibility, VisibilityVersion: p.VisibilityVersion,
	}, nil
}
