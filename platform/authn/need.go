package authn

import (
	"context"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Need is the least relation of a person to the objects that a method touches. The methods' access options
// say it, platform/rpc puts it into the context, and ScopeOf turns it into what SQL filters on: so the
// option is the rule, and there is no second place where one is written.
type Need int8

// The needs. The zero value is NeedNone, whose scope matches no row of anybody's, not even for an admin:
// a method that reads rows and says that it does not is found at its first call.
const (
	NeedNone Need = iota
	NeedRead
	NeedEdit
	NeedManage
)

type needKey struct{}

// WithNeed puts the need of the called method into its context.
func WithNeed(ctx context.Context, n Need) context.Context {
	return context.WithValue(ctx, needKey{}, n)
}

// ScopeOf is what the caller of this request may touch, by the need of the called method.
func ScopeOf(ctx context.Context) Scope {
	need, _ := ctx.Value(needKey{}).(Need)
	return Of(ctx).scope(need)
}

// Needing is the scope under another need, with the same rows granted.
func (s Scope) Needing(n Need) Scope {
	s.need = n
	return s
}

// Sees says whether the scope reads a row of this owner, project and visibility: what SQL says of rows,
// for what is held in memory.
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

// visibleToAll is the visibility of rows that every person reads.
const visibleToAll = "all"

// Grants says whether the scope's need is met by a row of this owner and project that the scope reads.
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

// Require is nil where the scope's need is met, and 403 for a row that the caller may only read.
func (s Scope) Require(ownerID, project, kind, id string) error {
	if s.Grants(ownerID, project) {
		return nil
	}
	return fault.New(fault.Forbidden, CodeNotOwner, "only its owner, those who may edit its project and admins may do this to %s %s", kind, id)
}

// SeesTeam says whether the scope reads a team: what SQL says of its rows, for what is held in memory.
func (s Scope) SeesTeam(team string) bool {
	return s.need != NeedNone && (s.Admin || slices.Contains(s.TeamsRead, team))
}

// RequireTeam is nil where the scope's need is met in a team that the scope reads, and 403 where the caller
// is in it and does not lead it.
func (s Scope) RequireTeam(team string) error {
	if s.need != NeedNone && (s.Admin || slices.Contains(s.TeamsLed, team)) {
		return nil
	}
	return fault.New(fault.Forbidden, CodeNotLead, "only leads of team %s and admins may do this to it", team)
}

// CodeNotLead marks the refusal of a member of a team who does not lead it.
const CodeNotLead = "not_lead"

// CodeNotOwner marks the refusal of a caller who reads an object and may not change it.
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
