package contract

import (
	"net/http"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// peopleLists maps the path of each list to a function that describes how to add rows to the list: teams, projects,
// members, users, quotas, sessions, versions of a setting, and the audit log.
func peopleLists() map[string]func(g *listGrower) growingList {
	keyed := func(_ *listGrower, name string) map[string]any { return map[string]any{"key": name, "name": name} }
	users := sorted("/api/admin/users", "username", func(_ *listGrower, name string) map[string]any {
		return map[string]any{"username": name, "role": "operator"}
	})
	return map[string]func(g *listGrower) growingList{
		"/api/teams":       sorted("/api/teams", "key", keyed),
		"/api/projects":    sorted("/api/projects", "key", keyed),
		"/api/admin/users": users,
		"/api/quota/{subject_kind}": func(g *listGrower) growingList {
			return growingList{path: "/api/quota/users", by: "subject", add: users(g).add}
		},
		"/api/projects/{project_id}/members": func(g *listGrower) growingList {
			var project created
			g.do(g.admin, http.MethodPost, "/api/projects", map[string]any{"key": "of-many", "name": "Of many"}, &project)
			path := "/api/projects/" + project.ID + "/members"
			return growingList{path: path, by: "username", position: atEnd, add: func(n int) {
				users(g).add(n)
				g.do(g.admin, http.MethodPut, path+"/"+rowName(n), map[string]any{"role": "viewer"}, nil)
			}}
		},
		"/api/profile/sessions": func(g *listGrower) growingList {
			const name, password = "sessional", "a good password of sessional"
			g.do(g.admin, http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": password}, nil)
			return growingList{
				path: "/api/profile/sessions", position: atFront, add: func(int) { g.signIn(name, password) },
				reader: g.caller().With(secret.New(g.signIn(name, password))),
			}
		},
		"/api/admin/settings/{key}/versions": func(g *listGrower) growingList {
			const path = "/api/admin/settings/installation.announcement"
			return growingList{path: path + "/versions", by: "version", position: atFront, add: func(n int) {
				var now struct {
					Version int `json:"version"`
				}
				g.do(g.admin, http.MethodGet, path, nil, &now)
				g.do(g.admin, http.MethodPut, path, map[string]any{"value": rowName(n), "version": now.Version}, nil)
			}}
		},
		"/api/admin/audit": func(g *listGrower) growingList {
			return growingList{path: "/api/admin/audit?action=team.create", position: atFront, late: true, add: posts("/api/teams", keyed)(g).add}
		},
	}
}
