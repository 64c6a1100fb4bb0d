package identity

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// objects maps the variables of test/contract/routes to the ids of objects. It has one object of each kind, and spare objects.
type objects map[string]string

// harness is an installation with a user for each relation, and with objects that one of these users created.
type harness struct {
	*testenv.Installation

	people map[string]*person // by relation
	tess   *person            // the user that the tested requests add, remove and change
	heir   *person            // receives transferred objects
	hidden objects            // in a project that only its team can see
	// catalogVersion is the version of the recipe of jobs.
	catalogVersion string
	open           objects // in a project that every user can see
	job            string  // a submission with placeholders such as <project>
	made           int
	// usedSpares counts the spare objects that were used, by kind and project.
	usedSpares map[string]int
	// devices is the number of addresses that have started device flows.
	devices atomic.Int64
}

// newHarness creates users, projects and objects through the API.
func newHarness(ctx context.Context, t *testing.T, s *testenv.Installation) *harness {
	t.Helper()
	w := &harness{Installation: s, people: map[string]*person{}, usedSpares: map[string]int{}}
	admin := at(1)
	admin.name, admin.password = "admin", s.Password.Reveal()
	admin.login(ctx, t, s)
	w.people["admin"], w.people["nobody"] = admin, at(2)
	for i, name := range []string{"owner", "viewer", "editor", "manager", "member", "lead", "stranger", "tess", "heir"} {
		w.people[name] = w.createUser(ctx, t, name, "operator", 10+i)
	}
	w.tess, w.heir = w.people["tess"], w.people["heir"]
	w.createTemporaryAdmin(ctx, t)
	w.hidden, w.open = objects{}, objects{}
	w.createProjects(ctx, t)
	w.prepareJob(ctx, t)
	owner := w.people["owner"]
	for _, o := range []objects{w.hidden, w.open} {
		w.createObjects(ctx, t, owner, o)
	}
	// From now on the owner of the objects is not a member of the two projects.
	for _, o := range []objects{w.hidden, w.open} {
		w.people["manager"].do(ctx, t, s, http.MethodDelete, "/api/projects/"+o["project_id"]+"/members/"+owner.name, nil, nil)
	}
	return w
}

// createUser creates a user and signs the user in.
func (w *harness) createUser(ctx context.Context, t *testing.T, name, role string, n int) *person {
	t.Helper()
	p := at(n)
	p.name, p.password = name, "a good password of "+name
	var made struct {
		User struct {
			ID string `json:"id"`
		} `json:"user"`
	}
	w.people["admin"].do(ctx, t, w.Installation, http.MethodPost, "/api/admin/users",
		map[string]any{"username": name, "role": role, "password": p.password}, &made)
	p.id = made.User.ID
	p.login(ctx, t, w.Installation)
	return p
}

// createTemporaryAdmin creates an admin with a temporary password and signs the admin in.
func (w *harness) createTemporaryAdmin(ctx context.Context, t *testing.T) {
	t.Helper()
	p := at(8)
	p.name = "newcomer"
	var made struct {
		User struct {
			ID string `json:"id"`
		} `json:"user"`
		Password string `json:"password"`
	}
	w.people["admin"].do(ctx, t, w.Installation, http.MethodPost, "/api/admin/users", map[string]any{"username": p.name, "role": "admin"}, &made)
	p.id, p.password, w.people[p.name] = made.User.ID, made.Password, p
	p.login(ctx, t, w.Installation)
}

// resetPassword resets the person's password to a new temporary password.
func (w *harness) resetPassword(ctx context.Context, t *testing.T, p *person) {
	t.Helper()
	var made struct {
		Password string `json:"password"`
	}
	w.people["admin"].do(ctx, t, w.Installation, http.MethodPost, "/api/admin/users/"+p.id+"/reset-password", map[string]any{}, &made)
	require.NotEmpty(t, made.Password)
	p.password = made.Password
}

// createProjects creates a team and two projects, and gives every person a role.
func (w *harness) createProjects(ctx context.Context, t *testing.T) {
	t.Helper()
	admin, manager := w.people["admin"], w.people["manager"]
	type made struct {
		ID string `json:"id"`
	}
	var team made
	admin.do(ctx, t, w.Installation, http.MethodPost, "/api/teams", map[string]any{"key": "crew", "name": "Crew"}, &team)
	for name, role := range map[string]string{"lead": "lead", "member": "member", "manager": "member"} {
		admin.do(ctx, t, w.Installation, http.MethodPut, "/api/teams/"+team.ID+"/members/"+name, map[string]any{"role": role}, nil)
	}
	w.hidden["team_id"] = team.ID
	for _, p := range []struct {
		into            objects
		key, visibility string
		body            map[string]any
	}{
		{w.hidden, "closed", "team", map[string]any{"team_id": team.ID}},
		{w.open, "open", "all", map[string]any{}},
	} {
		p.body["key"], p.body["name"], p.body["visibility"] = p.key, "The "+p.key, p.visibility
		var project made
		manager.do(ctx, t, w.Installation, http.MethodPost, "/api/projects", p.body, &project)
		p.into["project_id"], p.into["project"] = project.ID, p.key
		for name, role := range map[string]string{"owner": "editor", "viewer": "viewer", "editor": "editor"} {
			manager.do(ctx, t, w.Installation, http.MethodPut, "/api/projects/"+project.ID+"/members/"+name, map[string]any{"role": role}, nil)
		}
	}
	// The user manager owns the project but is not in the team.
	admin.do(ctx, t, w.Installation, http.MethodDelete, "/api/teams/"+team.ID+"/members/manager", nil, nil)
}

const recipe = "custom/custom"

// prepareJob prepares the submission of a command that writes its token to a file and then waits.
func (w *harness) prepareJob(ctx context.Context, t *testing.T) {
	t.Helper()
	admin := w.people["admin"]
	var newest struct {
		Version string `json:"version"`
	}
	admin.do(ctx, t, w.Installation, http.MethodGet, "/api/recipes/"+recipe, nil, &newest)
	var lock map[string]any
	admin.do(ctx, t, w.Installation, http.MethodGet, "/api/recipes/"+recipe+"/versions/"+newest.Version+"/lock", nil, &lock)
	raw, err := json.Marshal(map[string]any{"api": "service/v1", "spec": map[string]any{
		"name": "<unique>", "project": "<project>",
		"source":    map[string]any{"command": []string{"sh", "-c", "<command>"}},
		"recipe":    map[string]any{"name": recipe, "version": newest.Version, "lock": lock},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": "default"}}},
	}})
	require.NoError(t, err)
	w.job = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(raw))
	w.catalogVersion = newest.Version
}
