package contract

import (
	"net/http"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// ofPeople returns, by path, how to grow each list of users, teams, projects, settings and the audit log.
func ofPeople() map[string]func(g *grower) growth {
	keyed := func(_ *grower, name string) map[string]any { return map[string]any{"key": name, "name": name} }
	users := sorted("/api/admin/users", "username", func(_ *grower, name string) map[string]any {
		return map[string]any{"username": name, "role": "operator"}
	})
	return map[string]func(g *grower) growth{
		"/api/teams":       sorted("/api/teams", "key", keyed),
		"/api/projects":    sorted("/api/projects", "key", keyed),
		"/api/admin/users": users,
		"/api/quota/{subject_kind}": func(g *grower) growth {
			return growth{path: "/api/quota/users", by: "subject", add: users(g).add}
		},
		"/api/projects/{project_id}/members": func(g *grower) growth {
			var project made
			g.do(g.admin, http.MethodPost, "/api/projects", map[string]any{"key": "of-many", "name": "Of many"}, &project)
			path := "/api/projects/" + project.ID + "/members"
			return growth{path: path, by: "username", comes: behind, add: func(n int) {
				users(g).add(n)
				g.do(g.admin, http.MethodPut, path+"/"+rowName(n), map[string]any{"role": "viewer"}, nil)
			}}
		},
		"/api/profile/sessions": func(g *grower) growth {
			const name, password = "sessional", "a good password of sessional"
			g.do(g.admin, http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": password}, nil)
			return growth{
				path: "/api/profile/sessions", comes: inFront, add: func(int) { g.signIn(name, password) },
				reader: g.caller().With(secret.New(g.signIn(name, password))),
			}
		},
		"/api/admin/settings/{key}/versions": func(g *grower) growth {
			const path = "/api/admin/settings/installation.announcement"
			return growth{path: path + "/versions", by: "version", comes: inFront, add: func(n int) {
				var now struct {
					Version int `json:"version"`
				}
				g.do(g.admin, http.MethodGet, path, nil, &now)
				g.do(g.admin, http.MethodPut, path, map[string]any{"value": rowName(n), "version": now.Version}, nil)
			}}
		},
		"/api/admin/audit": func(g *grower) growth {
			return growth{path: "/api/admin/audit?action=team.create", comes: inFront, late: true, add: posts("/api/teams", keyed)(g).add}
		},
	}
}
