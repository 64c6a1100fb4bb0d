package access

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// DefaultProject is the key of the project that is used if a request specifies none. Every user may add to it.
const DefaultProject = "default"

// Visible is the WHERE condition that limits a user's reads to the rows that the user may see. Args returns the
// condition's arguments.
const Visible = `($1 OR ($2 <> '' AND owner_id = $2) OR (visibility = 'all' AND $2 <> '') OR project_id = ANY($3))`

// Args returns the arguments of Visible, followed by the given further arguments.
func Args(scope authn.Scope, more ...any) []any {
	return append([]any{scope.Admin, scope.UserID, scope.Projects}, more...)
}

// Filter selects rows of a list among those that the caller may see. An empty field selects all rows.
type Filter struct {
	Name    string // the exact name
	Project string // the key or the id of the project
	Text    string // a part of the name, ignoring case
}

// Filtered is the WHERE condition for a table with the columns of an Owner and a name: Visible and a Filter. Its further
// arguments begin with $7.
const Filtered = Visible + ` AND ($4 = '' OR name = $4) AND ($5 = '' OR $5 IN (project, project_id))
	AND ($6 = '' OR strpos(lower(name), lower($6)) > 0)`

// Args returns the arguments of Filtered, followed by the given further arguments.
func (f Filter) Args(scope authn.Scope, more ...any) []any {
	return Args(scope, append([]any{f.Name, f.Project, f.Text}, more...)...)
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
	// VisibilityVersion is the version of Visibility. OwnerFor sets it for rows that are inserted; reads do not set it.
	VisibilityVersion int64 `db:"-"`
}

// Seen reports whether a caller with the scope may read rows with this owner.
func (o Owner) Seen(s authn.Scope) bool { return s.Sees(o.UserID, o.ProjectID, o.Visibility) }

// Require returns a 403 error if the scope does not permit the called method on a row with this owner. The error
// contains the given kind and id of the row.
func (o Owner) Require(s authn.Scope, kind, id string) error {
	return s.Require(o.UserID, o.ProjectID, kind, id)
}

// Project is a project as the auth service reports it.
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
