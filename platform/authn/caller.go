// Package authn owns the caller's identity as services see it: the signed tokens that carry it between processes, and
// the context values that carry it within a process.
//
// It promises:
//   - a token is accepted only if it has the algorithm EdDSA, the exact typ, issuer and audience of its format, the
//     id of a valid key, and the claims exp, iat and jti; if its lifetime and size are within the maximum of the
//     format; and if it has no other header field and no duplicate field;
//   - the error for a rejected token is a fault of kind unauthenticated; if the keys cannot be fetched, it is a fault
//     of kind unavailable;
//   - access is decided from the signed claims alone, never from other metadata.
package authn

import (
	"slices"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Kind is the kind of credential that a caller presents to the gateway.
type Kind string

// The kinds of callers.
const (
	// KindNone is a request without a credential, on a route that requires none.
	KindNone Kind = "none"
	// KindUser is a user with an access token.
	KindUser Kind = "user"
	// KindIngest is a training process with the ingest token of one run.
	KindIngest Kind = "ingest"
	// KindDeployment is a client with the token of one deployment.
	KindDeployment Kind = "deployment"
	// KindAgent is a node's agent with its certificate; Subject is the node's id.
	KindAgent Kind = "agent"
	// KindService is a Signalbox service acting on its own behalf; Subject is its name.
	KindService Kind = "service"
)

// The roles of a user, and the roles of a project member.
const (
	RoleOperator = "operator"
	RoleAdmin    = "admin"

	ProjectViewer = "viewer"
	ProjectEditor = "editor"
	ProjectOwner  = "owner"
)

// MaxProjects is the maximum number of project memberships in a token. If a caller has more, ProjectsCut is set and
// services fetch all memberships from the auth service.
const MaxProjects = 500

// MaxTeams is the maximum number of teams in a token, and therefore of teams per user.
const MaxTeams = 100

// ProjectRole is one project membership.
type ProjectRole struct {
	Project string `json:"p"`
	Role    string `json:"r"`
}

// Caller is the identity that makes a request.
type Caller struct {
	Kind      Kind   `json:"kind"`
	Subject   string `json:"-"` // the id of the user, node, run or deployment, or the service's name
	Username  string `json:"name,omitempty"`
	SessionID string `json:"sid,omitempty"`
	Role      string `json:"role,omitempty"`
	// PasswordDrawn is true until the user replaces the generated temporary password.
	PasswordDrawn bool `json:"drawn,omitempty"`
	// ClientAddr is the client's address as determined by the gateway.
	ClientAddr string `json:"addr,omitempty"`
	// Epoch is the epoch of the user's account when the auth service signed the token. The service increases the
	// account's epoch when the user's access tokens must stop working.
	Epoch int64    `json:"epoch,omitempty"`
	Teams []string `json:"teams,omitempty"`
	// LeadOf is the subset of Teams that the user leads.
	LeadOf       []string      `json:"leads,omitempty"`
	Projects     []ProjectRole `json:"projects,omitempty"`
	ProjectsCut  bool          `json:"projects_cut,omitempty"`
	RunID        string        `json:"run,omitempty"`
	DeploymentID string        `json:"dep,omitempty"`
}

// IsUser reports whether the caller is a user.
func (c *Caller) IsUser() bool { return c != nil && c.Kind == KindUser && c.Subject != "" }

// IsAdmin reports whether the caller is a user with the admin role.
func (c *Caller) IsAdmin() bool { return c.IsUser() && c.Role == RoleAdmin }

// ProjectRole returns the caller's role in a project, empty if the caller is not a member.
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

// CanReadProject reports whether the caller may read the project and what belongs to it.
func (c *Caller) CanReadProject(project string) bool {
	return c.IsAdmin() || c.ProjectRole(project) != ""
}

// CanEditProject reports whether the caller may change what belongs to the project.
func (c *Caller) CanEditProject(project string) bool {
	role := c.ProjectRole(project)
	return c.IsAdmin() || role == ProjectEditor || role == ProjectOwner
}

// CanManageProject reports whether the caller may change the project and its members.
func (c *Caller) CanManageProject(project string) bool {
	return c.IsAdmin() || c.ProjectRole(project) == ProjectOwner
}

// InTeam reports whether the caller is a member of the team.
func (c *Caller) InTeam(team string) bool {
	return c.IsUser() && team != "" && slices.Contains(c.Teams, team)
}

// LeadsTeam reports whether the caller is a lead of the team.
func (c *Caller) LeadsTeam(team string) bool {
	return c.InTeam(team) && slices.Contains(c.LeadOf, team)
}

// CanRead reports whether the caller may read a row with this owner and project. It does not consider whether the row
// is visible to all users.
func (c *Caller) CanRead(ownerID, project string) bool {
	return c.owns(ownerID) || c.CanReadProject(project)
}

// CanEdit reports whether the caller may change a row with this owner and project.
func (c *Caller) CanEdit(ownerID, project string) bool {
	return c.owns(ownerID) || c.CanEditProject(project)
}

func (c *Caller) owns(ownerID string) bool {
	return c.IsUser() && ownerID != "" && ownerID == c.Subject
}

// Scope describes the rows that SQL filters select: all rows if Admin is true, otherwise the rows that UserID owns, the
// rows of Projects and, if UserID is not empty, the rows that are visible to all users. For a caller that is not a
// user, the scope selects no row: UserID is empty, and no row has an empty owner. Projects is then empty but not nil,
// so that `project_id = ANY($1)` is false and not NULL.
type Scope struct {
	Admin    bool
	UserID   string
	Projects []string
	// Granted is the subset of Projects in which the caller's role meets the method's need.
	Granted []string
	// TeamsRead are the caller's teams. TeamsLed are the teams for which the method's need is met: to change a team,
	// the caller must lead it. Neither is nil.
	TeamsRead []string
	TeamsLed  []string

	need Need
	// archived reports whether a project is archived; it may be nil.
	archived func(project string) (bool, error)
}

// Reads returns the scope of the rows that the caller may read. It is for internal methods that a service calls on
// the caller's behalf. Public methods use ScopeOf, which applies the access option of the method.
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

// RequireUser returns the caller if it is a user, otherwise a 401 error.
func (c *Caller) RequireUser() (*Caller, error) {
	if !c.IsUser() {
		return nil, fault.New(fault.Unauthenticated, "", "Not authenticated")
	}
	return c, nil
}

// RequireAdmin returns nil for an admin, a 403 error for other users and a 401 error for all other callers.
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
