// Package own holds whose a row is, and who may see and change it: one rule for all that the registry
// keeps. A row that the caller may not see is as absent as one that is not there.
package own

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// DefaultProject is where things belong whose maker names no project; everyone may add to it.
const DefaultProject = "default"

// Visible is the ownership filter of every read; its arguments are Args.
const Visible = `($1 OR owner_id = $2 OR (visibility = 'all' AND $2 <> '') OR project_id = ANY($3))`

// Args are the arguments of Visible, and then more.
func Args(scope authn.Scope, more ...any) []any {
	return append([]any{scope.Admin, scope.UserID, scope.Projects}, more...)
}

// Everything is the scope of the service itself.
func Everything() authn.Scope { return authn.Scope{Admin: true, Projects: []string{}} }

// Owner is whose a row is.
type Owner struct {
	UserID     string
	UserName   string
	ProjectID  string
	Project    string // its key
	Visibility string
	// VisibilityVersion is the version of the project's visibility, when the row is inserted.
	VisibilityVersion int64
}

// Seen says whether the scope reads what has this owner.
func (o Owner) Seen(s authn.Scope) bool { return s.Sees(o.UserID, o.ProjectID, o.Visibility) }

// Require refuses a caller who only sees the thing, where the called method needs more.
func (o Owner) Require(s authn.Scope, kind, id string) error {
	return s.Require(o.UserID, o.ProjectID, kind, id)
}

// Project is where a row belongs.
type Project struct {
	ID, Key, Visibility string
	VisibilityVersion   int64
	Archived            bool
}

// Projects finds projects by key; nil for an unknown one.
type Projects interface {
	Project(ctx context.Context, key string) (*Project, error)
}

// For is the owner of what the caller makes in the project: he must have there what the called method needs, but
// for the default, and it must not be archived.
func For(ctx context.Context, projects Projects, key string) (Owner, error) {
	c, err := authn.Of(ctx).RequireUser()
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
