package contract

import (
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// projectKey is the key of the shared project, which only its team can see.
const projectKey = "search"

// as returns a client that sends the token from the variable with the given name.
func (b *builder) as(name string) *client.Client {
	b.Helper()
	return b.caller().With(secret.New(b.at(name)))
}

// do sends a request that must succeed.
func (b *builder) do(c *client.Client, method, path string, body, out any) {
	b.Helper()
	require.NoError(b, c.Do(b.Context(), method, path, body, out), "%s %s: %s", method, path, b.Tail())
}

// signIn returns an access token of a user.
func (b *builder) signIn(name, password string) string {
	b.Helper()
	var in struct {
		Token string `json:"token"`
	}
	b.do(b.caller(), http.MethodPost, "/api/auth/login", map[string]string{"username": name, "password": password}, &in)
	return in.Token
}

func (b *builder) addAdmin() {
	b.Helper()
	b.set("admin_password", b.Password.Reveal())
	b.set("admin", b.signIn("admin", b.Password.Reveal()))
}

// addPeople creates an editor and a viewer of a project that only its team can see, and a user without access to the
// project.
func (b *builder) addPeople() {
	b.Helper()
	admin := b.as("admin")
	for name, variable := range map[string]string{"ada": "operator", "vera": "viewer", "stan": "stranger"} {
		password := "a good password of " + name
		b.do(admin, http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": password}, nil)
		b.set(variable, b.signIn(name, password))
	}
	var team, project struct {
		ID string `json:"id"`
	}
	b.do(admin, http.MethodPost, "/api/teams", map[string]any{"key": "crew", "name": "Crew"}, &team)
	b.do(admin, http.MethodPost, "/api/projects", map[string]any{"key": projectKey, "name": "Search", "visibility": "team", "team_id": team.ID}, &project)
	for name, role := range map[string]string{"ada": "editor", "vera": "viewer"} {
		b.do(admin, http.MethodPut, "/api/projects/"+project.ID+"/members/"+name, map[string]any{"role": role}, nil)
	}
	b.set("project", projectKey)
	b.set("project_id", project.ID)
	b.set("team", "crew")
	b.set("team_id", team.ID)
}

// addNewcomer creates an admin with a temporary password.
func (b *builder) addNewcomer() {
	b.Helper()
	var created struct {
		Password string `json:"password"`
	}
	b.do(b.as("admin"), http.MethodPost, "/api/admin/users", map[string]any{"username": "newcomer", "role": "admin"}, &created)
	b.set("newcomer", b.signIn("newcomer", created.Password))
}

// addFleet sets variables to the ids of the installation's own fleet and node.
func (b *builder) addFleet() {
	b.Helper()
	type row struct {
		ID      string `json:"id"`
		FleetID string `json:"fleet_id"`
		State   string `json:"state"`
	}
	var nodes []row
	b.do(b.as("admin"), http.MethodGet, "/api/cluster/nodes?limit=500", nil, &nodes)
	// Goldens create further nodes, but those are never ready.
	nodes = slices.DeleteFunc(nodes, func(n row) bool { return n.State != "ready" })
	require.NotEmpty(b, nodes)
	b.set("fleet", nodes[0].FleetID)
	b.set("node", nodes[0].ID)
}
