package contract

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// zeros is the digest of a file that a manifest contains but that is never uploaded.
var zeros = strings.Repeat("0", 64)

// catalogLists maps the path of each list of the catalog to a function that describes how to add rows to the list.
func catalogLists() map[string]func(g *listGrower) growingList {
	solution := func(g *listGrower, name string) map[string]any {
		return map[string]any{"name": name, "version": "1", "recipe": recipe + "@" + g.at("recipe_version"), "purpose": map[string]any{}}
	}
	return map[string]func(g *listGrower) growingList{
		"/api/datasets": named("/api/datasets"),
		"/api/recipes": func(g *listGrower) growingList {
			return growingList{path: "/api/recipes?project=" + projectKey, by: "name", position: byName, add: func(n int) { g.publishRecipe(rowName(n)) }}
		},
		"/api/models":       named("/api/models"),
		"/api/environments": named("/api/environments"),
		"/api/rubrics":      named("/api/rubrics"),
		"/api/datasets/{dataset_id}/versions": func(g *listGrower) growingList {
			return posts(g.inProject("/api/datasets", "of-versions")+"/versions", func(_ *listGrower, name string) map[string]any {
				return map[string]any{"version": name, "files": []any{map[string]any{"path": "a", "size_bytes": 1, "sha256": zeros}}}
			})(g)
		},
		"/api/environments/{environment_id}/versions": func(g *listGrower) growingList {
			return posts(g.inProject("/api/environments", "of-versions")+"/versions", func(_ *listGrower, name string) map[string]any {
				return map[string]any{"version": name, "manifest": map[string]any{
					"api": "env/v1", "entry": "a:Env", "taskset": map[string]any{"digest": "sha256:" + zeros, "count": 1},
				}}
			})(g)
		},
		"/api/rubrics/{rubric_id}/versions": func(g *listGrower) growingList {
			return posts(g.inProject("/api/rubrics", "of-versions")+"/versions", func(_ *listGrower, name string) map[string]any {
				return map[string]any{"content": map[string]any{"criteria": []any{map[string]any{"key": "right", "title": name, "weight": 1, "kind": "exact"}}}}
			})(g)
		},
		"/api/models/{model_id}/versions": func(g *listGrower) growingList {
			path := g.inProject("/api/models", "of-versions") + "/versions"
			return growingList{path: path, position: atFront, add: func(n int) {
				artifact := g.run.upload(rowName(n)+".gguf", fixtures.GGUF(rowName(n)))
				g.do(g.admin, http.MethodPost, path, map[string]any{"source": map[string]string{"run_id": g.run.run, "artifact_id": artifact}}, nil)
			}}
		},
		"/api/models/{model_id}/history": func(g *listGrower) growingList {
			path := "/api/models/" + g.at("own_model")
			return growingList{path: path + "/history", position: atFront, add: func(n int) {
				g.do(g.admin, http.MethodPut, path+"/aliases/"+rowName(n), map[string]any{"version": 1}, nil)
			}}
		},
		"/api/solutions": posts("/api/solutions", func(g *listGrower, name string) map[string]any {
			return map[string]any{"project": projectKey, "manifest": solution(g, name)}
		}),
		applications: func(g *listGrower) growingList {
			bindings := map[string]any{}
			for name, of := range map[string]string{"model": "model_ref", "train_dataset": "train_ref", "validation_dataset": "held_ref", "taskset": "taskset_ref", "rubric": "rubric_ref"} {
				bindings[name] = g.at(of)
			}
			list := posts(applications, func(g *listGrower, name string) map[string]any {
				return map[string]any{"project": projectKey, "solution": solution(g, "applied-"+name), "bindings": bindings}
			})(g)
			list.size = 50
			return list
		},
	}
}

// servingLists maps the path of each list of deployments and playground sessions to a function that describes how to
// add rows to the list.
func servingLists() map[string]func(g *listGrower) growingList {
	target := func(g *listGrower) map[string]any {
		return map[string]any{
			"source":  map[string]any{"model_id": g.at("model"), "version": 1},
			"serving": map[string]any{"engine": "command", "command": []string{"true"}, "pool": g.pool},
		}
	}
	const deployments, sessions = "/api/model-deployments", "/api/playground/sessions"
	return map[string]func(g *listGrower) growingList{
		deployments: named(deployments),
		deployments + "/{deployment_id}/tokens": func(g *listGrower) growingList {
			return posts(g.inProject(deployments, "of-tokens")+"/tokens", func(_ *listGrower, name string) map[string]any {
				return map[string]any{"name": name}
			})(g)
		},
		deployments + "/{deployment_id}/revisions": func(g *listGrower) growingList {
			return posts(g.inProject(deployments, "of-revisions")+"/revisions", func(g *listGrower, _ string) map[string]any { return target(g) })(g)
		},
		deployments + "/{deployment_id}/events": func(g *listGrower) growingList {
			path := g.inProject(deployments, "of-events")
			return growingList{path: path + "/events", position: atEnd, add: func(n int) {
				g.do(g.admin, http.MethodPatch, path, map[string]any{"description": rowName(n)}, nil)
			}}
		},
		deployments + "/{deployment_id}/traffic": func(g *listGrower) growingList {
			id := g.at("deployment")
			return growingList{path: deployments + "/" + id + "/traffic", by: "request_id", position: atFront, late: true, add: func(n int) {
				g.complete(g.at("deployment_token"), "/inference/"+id, n)
			}}
		},
		sessions: func(g *listGrower) growingList {
			return growingList{path: sessions, position: atFront, add: func(n int) {
				var session created
				body := map[string]any{"project": projectKey, "title": rowName(n), "targets": []any{target(g)}}
				g.do(g.admin, http.MethodPost, sessions, body, &session)
				g.do(g.admin, http.MethodDelete, sessions+"/"+session.ID, nil, nil) // the number of open sessions per user is limited
			}}
		},
		sessions + "/{playground_id}/transcript": func(g *listGrower) growingList {
			path := sessions + "/" + g.at("session")
			return growingList{path: path + "/transcript", position: atEnd, late: true, add: func(n int) {
				g.complete(g.at("operator"), path+"/targets/1", n)
			}}
		},
	}
}

// complete sends a completion request to an engine.
func (g *listGrower) complete(token, path string, n int) {
	g.Helper()
	g.do(g.with(token), http.MethodPost, path+"/v1/completions", map[string]any{"model": "default", "prompt": fmt.Sprint(n)}, nil)
}
