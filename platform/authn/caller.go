// Package authn owns who is calling: the caller's identity as services see it, the signed tokens
// that carry it, and how it rides in a context.
//
// It promises:
//   - a token is accepted only with its one algorithm (EdDSA), its exact typ, issuer and audience,
//     a key id of the fixed set, exp, iat and jti, a lifetime no longer than its format allows, no
//     other header, no name given twice, and a size under the format's cap;
//   - every refusal is a fault of kind unauthenticated; only keys that cannot be had are unavailable;
//   - what decides about access is computed from the signed claims alone, never from other metadata.
package authn

import (
	"slices"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Kind is the kind of credential that a caller presented at the edge.
type Kind string

// The kinds of callers.
const (
	// KindNone is a request on a route that needs no credential.
	KindNone Kind = "none"
	// KindUser is a person with an access token.
	KindUser Kind = "user"
	// KindIngest is a training process with the ingest token of one run.
	KindIngest Kind = "ingest"
	// KindDeployment is a client with the token of one deployment.
	KindDeployment Kind = "deployment"
	// KindAgent is a node's agent with its certificate; Subject is the node's id.
	KindAgent Kind = "agent"
	// KindService is one of our services acting for itself; Subject is its name.
	KindService Kind = "service"
)

// The roles of a person, and the roles of a member of a project.
const (
	RoleOperator = "operator"
	RoleAdmin    = "admin"

	ProjectViewer = "viewer"
	ProjectEditor = "editor"
	ProjectOwner  = "owner"
)

// MaxProjects is how many memberships a token carries. A caller with more has ProjectsCut set, and
// services ask auth.
const MaxProjects = 500

// MaxTeams is how many teams a token carries, and so how many a person may be in.
const MaxTeams = 100

// ProjectRole is one membership.
type ProjectRole struct {
	Project string `json:"p"`
	Role    string `json:"r"`
}

// Caller is who presented a credential at the edge.
type Caller struct {
	Kind      Kind   `json:"kind"`
	Subject   string `json:"-"` // the id of the user, node, run or deployment, or the service's name
	Username  string `json:"name,omitempty"`
	SessionID string `json:"sid,omitempty"`
	Role      string `json:"role,omitempty"`
	// PasswordDrawn marks a person who has yet to change a password that was drawn for him.
	PasswordDrawn bool `json:"drawn,omitempty"`
	// ClientAddr is the address the request came from, as the edge judged it.
	ClientAddr string `json:"addr,omitempty"`
	// Epoch is the credential epoch of the user; a higher one in the database outdates the token.
	Epoch int64    `json:"epoch,omitempty"`
	Teams []string `json:"teams,omitempty"`
	// LeadOf are those of Teams that the user leads.
	LeadOf       []string      `json:"leads,omitempty"`
	Projects     []ProjectRole `json:"projects,omitempty"`
	ProjectsCut  bool          `json:"projects_cut,omitempty"`
	RunID        string        `json:"run,omitempty"`
	DeploymentID string        `json:"dep,omitempty"`
}

// IsUser says whether a person is calling.
func (c *Caller) IsUser() bool { return c != nil && c.Kind == KindUser && c.Subject != "" }

// IsAdmin says whether a person with the admin role is calling.
func (c *Caller) IsAdmin() bool { return c.IsUser() && c.Role == RoleAdmin }

// ProjectRole is the caller's role in a project, empty when he is no member.
func (c *Caller) ProjectRole(project string) string {
	if !c.IsUser() || project == "" {
		return ""
	}
	for _, p := range c.Projects {
		if p.Project == project {
			return p.Role
		}
	}
	return ""
}

// CanReadProject says whether the caller sees what the project's members see.
func (c *Caller) CanReadProject(project string) bool {
	return c.IsAdmin() || c.ProjectRole(project) != ""
}

// CanEditProject says whether the caller may change what belongs to the project.
func (c *Caller) CanEditProject(project string) bool {
	role := c.ProjectRole(project)
	return c.IsAdmin() || role == ProjectEditor || role == ProjectOwner
}

// CanManageProject says whether the caller may change the project and its members.
func (c *Caller) CanManageProject(project string) bool {
	return c.IsAdmin() || c.ProjectRole(project) == ProjectOwner
}

// InTeam says whether the caller is a member of the team.
func (c *Caller) InTeam(team string) bool {
	return c.IsUser() && team != "" && slices.Contains(c.Teams, team)
}

// LeadsTeam says whether the caller is a lead of the team.
func (c *Caller) LeadsTeam(team string) bool {
	return c.InTeam(team) && slices.Contains(c.LeadOf, team)
}

// CanRead says whether the caller sees a row of this owner and project. A row's visibility to all is
// the row's own matter.
func (c *Caller) CanRead(ownerID, project string) bool {
	return c.owns(ownerID) || c.CanReadProject(project)
}

// CanEdit says whether the caller may change a row of this owner and project.
func (c *Caller) CanEdit(ownerID, project string) bool {
	return c.owns(ownerID) || c.CanEditProject(project)
}

func (c *Caller) owns(ownerID string) bool {
	return c.IsUser() && ownerID != "" && ownerID == c.Subject
}

// Scope is what SQL filters on: everything for Admin, else rows of UserID or of Projects. The scope of a
// caller who is no person matches no owned row: UserID is empty, which no row has, and Projects is empty
// and never nil, so that `project_id = ANY($1)` is false and not NULL.
type Scope struct {
	Admin    bool
	UserID   string
	Projects []string
	// Granted are those of Projects in which the need of the method is met.
	Granted []string
	// TeamsRead are the teams that the caller is in, TeamsLed those of them in which the need of the method
	// is met: what is changed of a team needs its lead. Neither is nil.
	TeamsRead []string
	TeamsLed  []string

	need Need
}

// Reads is the scope of what the caller may read: for what a service does on his behalf for another one.
// Public methods take ScopeOf, which their access option decides.
func (c *Caller) Reads() Scope { return c.scope(NeedRead) }

func (c *Caller) scope(need Need) Scope {
	s := Scope{Projects: []string{}, Granted: []string{}, TeamsRead: []string{}, TeamsLed: []string{}, need: need}
	if !c.IsUser() || need == NeedNone {
		return s
	}
	s.Admin, s.UserID = c.IsAdmin(), c.Subject
	for _, p := range c.Projects {
		s.Projects = append(s.Projects, p.Project)
		if need.met(p.Role) {
			s.Granted = append(s.Granted, p.Project)
		}
	}
	for _, team := range c.Teams {
		s.TeamsRead = append(s.TeamsRead, team)
		if need == NeedRead || c.LeadsTeam(team) {
			s.TeamsLed = append(s.TeamsLed, team)
		}
	}
	for _, list := range [][]string{s.Projects, s.Granted, s.TeamsRead, s.TeamsLed} {
		slices.Sort(list)
	}
	return s
}

// RequireUser is the person who is calling, or 401.
func (c *Caller) RequireUser() (*Caller, error) {
	if !c.IsUser() {
		return nil, fault.New(fault.Unauthenticated, "", "Not authenticated")
	}
	return c, nil
}

// RequireAdmin is nil for an admin, 403 for another person and 401 for anyone else.
func (c *Caller) RequireAdmin() error {
	switch {
	case c.IsAdmin():
		return nil
	case c.IsUser():
		return fault.New(fault.Forbidden, "admin_required", "this needs the admin role")
	default:
		return fault.New(fault.Unauthenticated, "", "Not authenticated")
	}
}
