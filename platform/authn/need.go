package authn

import (
	"context"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Need is the right that a caller must have on the objects that a method uses. The method's access option declares
// it, platform/rpc puts it into the context, and ScopeOf turns it into the Scope of the SQL filters. The rule is
// therefore written only once, in the option.
type Need int8

// The needs, in increasing order. The zero value is NeedNone. Its scope matches no rows, not even for an admin, so a
// method that reads rows without declaring a need fails on its first call.
const (
	NeedNone Need = iota
	NeedRead
	NeedEdit
	NeedManage
)

type needKey struct{}

// WithNeed returns a context that carries the need of the called method.
func WithNeed(ctx context.Context, n Need) context.Context {
	return context.WithValue(ctx, needKey{}, n)
}

// ScopeOf returns the scope that the caller in ctx has for the need of the called method.
func ScopeOf(ctx context.Context) Scope {
	need, _ := ctx.Value(needKey{}).(Need)
	s := CallerOf(ctx).scope(need)
	if fetch, ok := ctx.Value(archivedKey{}).(FetchArchived); ok {
		s.archived = func(project string) (bool, error) { return fetch(ctx, project) }
	}
	return s
}

// WithNeed returns the scope with another need but the same granted rows.
func (s Scope) WithNeed(n Need) Scope {
	s.need = n
	return s
}

// Sees reports whether the scope may read a row with this owner, project and visibility. It applies the rule of the SQL
// filter to an object in memory.
func (s Scope) Sees(ownerID, project, visibility string) bool {
	switch {
	case s.need == NeedNone:
		return false
	case s.Admin, visibility == visibleToAll && s.UserID != "":
		return true
	default:
		return s.UserID != "" && s.UserID == ownerID || project != "" && slices.Contains(s.Projects, project)
	}
}

// visibleToAll is the visibility of rows that every user may read.
const visibleToAll = "all"

// Grants reports whether the caller has the right that the method needs on a readable row with this owner and
// project.
func (s Scope) Grants(ownerID, project string) bool {
	switch {
	case s.need == NeedNone:
		return false
	case s.need == NeedRead || s.Admin:
		return true
	case s.UserID != "" && s.UserID == ownerID:
		return true
	default:
		return project != "" && slices.Contains(s.Granted, project)
	}
}

// Require returns nil if the caller has the right that the method needs on a readable row with this owner and project,
// and a 403 error otherwise. If the method changes something and the project is archived, it returns a 409 error.
func (s Scope) Require(ownerID, project, kind, id string) error {
	if s.Grants(ownerID, project) {
		return s.requireOpen(project)
	}
	return fault.New(fault.Forbidden, CodeNotOwner,
		"%s %s can be changed only by its owner, by project members with a sufficient role and by admins", kind, id)
}

// SeesTeam reports whether the scope may read a team. It applies the rule of the SQL filter to a team in memory.
func (s Scope) SeesTeam(team string) bool {
	return s.need != NeedNone && (s.Admin || slices.Contains(s.TeamsRead, team))
}

// RequireTeam returns nil if the caller has the right that the method needs on the team. Otherwise, for example for a
// member who is not a lead, it returns a 403 error.
func (s Scope) RequireTeam(team string) error {
	if s.need != NeedNone && (s.Admin || slices.Contains(s.TeamsLed, team)) {
		return nil
	}
	return fault.New(fault.Forbidden, CodeNotLead, "only leads of team %s and admins may do this", team)
}

// CodeNotLead is the error code for team members who do not lead the team.
const CodeNotLead = "not_lead"

// CodeNotOwner is the error code for callers who may read an object but not change it.
const CodeNotOwner = "not_owner"

func (n Need) met(role string) bool {
	switch n {
	case NeedRead:
		return role != ""
	case NeedEdit:
		return role == ProjectEditor || role == ProjectOwner
	case NeedManage:
		return role == ProjectOwner
	default:
		return false
	}
}
