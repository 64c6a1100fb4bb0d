package contract

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// with returns a client that sends the given token.
func (g *listGrower) with(token string) *client.Client { return g.caller().With(secret.New(token)) }

// submitWaitingJob submits a job with the lowest priority to a pool without nodes, so that it stays queued.
func (g *listGrower) submitWaitingJob(name string) string {
	g.Helper()
	var job created
	g.do(g.as("operator"), http.MethodPost, "/api/jobs", map[string]any{"api": "service/v1", "spec": map[string]any{
		"name": name, "project": projectKey, "priority": 0, "source": map[string]any{"command": []string{"true"}},
		"recipe":    map[string]any{"name": recipe, "version": g.at("recipe_version"), "lock": json.RawMessage(g.at("recipe_lock"))},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": g.pool}}},
	}}, &job)
	return job.ID
}

// runOf returns the id of a job's run.
func (g *listGrower) runOf(jobID string) string {
	g.Helper()
	var job struct {
		RunID string `json:"run_id"`
	}
	g.do(g.as("operator"), http.MethodGet, "/api/jobs/"+jobID, nil, &job)
	return job.RunID
}

// workLists maps the path of each list of jobs, fleets, nodes and shares to a function that describes how to add rows
// to the list.
func workLists() map[string]func(g *listGrower) growingList {
	submitted := func(list growingList) func(g *listGrower) growingList {
		return func(g *listGrower) growingList {
			list.add = func(n int) { g.submitWaitingJob(rowName(n)) }
			return list
		}
	}
	return map[string]func(g *listGrower) growingList{
		"/api/jobs": submitted(growingList{path: "/api/jobs", position: atFront}),
		"/api/runs": submitted(growingList{path: "/api/runs?state=all", position: atFront}),
		"/api/runs/{run_id}/notes": func(g *listGrower) growingList {
			path := "/api/runs/" + g.runOf(g.submitWaitingJob("of-notes"))
			return growingList{path: path + "/notes", by: "version", position: atFront, add: func(n int) {
				g.do(g.as("operator"), http.MethodPatch, path, map[string]any{"notes": rowName(n)}, nil)
			}}
		},
		"/api/projects/{project_id}/tags": func(g *listGrower) growingList {
			return growingList{path: "/api/projects/" + g.at("project_id") + "/tags?q=" + rowPrefix, by: "tag", add: func(n int) {
				path := "/api/runs/" + g.runOf(g.submitWaitingJob("of-tags"))
				g.do(g.as("operator"), http.MethodPatch, path, map[string]any{"tags": []string{rowName(n)}}, nil)
			}}
		},
		"/api/cluster/queue": submitted(growingList{path: "/api/cluster/queue", by: "job_id", position: atEnd}),
		"/api/jobs/{job_id}/events": func(g *listGrower) growingList {
			path := "/api/jobs/" + g.submitWaitingJob("of-events")
			return growingList{path: path + "/events", position: atEnd, add: func(n int) {
				g.do(g.as("operator"), http.MethodPatch, path, map[string]any{"name": rowName(n)}, nil)
			}}
		},
		"/api/jobs/{job_id}/attempts": func(g *listGrower) growingList {
			job := g.submitWaitingJob("of-attempts")
			// Insert the rows directly, because a job waits for seconds before its next attempt.
			return growingList{path: "/api/jobs/" + job + "/attempts", by: "number", position: atEnd, add: func(n int) {
				g.execSQL(g.Context(), `INSERT INTO jobs.attempt (id, job_id, number, state, created_at)
					SELECT $1, $2, 1 + count(*), 'failed', now() FROM jobs.attempt WHERE job_id = $2`, fmt.Sprintf("att_%026d", n), job)
			}}
		},
		"/api/fleets": sorted("/api/fleets", "name", func(_ *listGrower, name string) map[string]any {
			return map[string]any{"name": name, "kind": "agent", "pools": []string{name}}
		}),
		"/api/fleets/{fleet_id}/join-tokens": func(g *listGrower) growingList {
			return posts(g.fleet("of-tokens")+"/join-tokens", func(*listGrower, string) map[string]any { return map[string]any{} })(g)
		},
		"/api/cluster/nodes": func(g *listGrower) growingList {
			var join struct {
				Token string `json:"token"`
			}
			g.do(g.admin, http.MethodPost, g.fleet("of-nodes")+"/join-tokens", map[string]any{"max_uses": 100}, &join)
			return growingList{path: "/api/cluster/nodes", by: "name", add: func(n int) {
				body := map[string]any{"token": join.Token, "hostname": rowName(n), "certificate_request": g.certificateRequest()}
				g.do(g.caller(), http.MethodPost, "/api/fleets/join", body, nil)
			}}
		},
		"/api/shares": posts("/api/shares", func(g *listGrower, _ string) map[string]any {
			return map[string]any{"kind": "job", "target_ids": []string{g.run.job}}
		}),
		"/api/share/{token}/metrics": func(g *listGrower) growingList {
			list := metrics(g)
			list.path = g.share() + "/metrics"
			return list
		},
		"/api/share/{token}/samples": func(g *listGrower) growingList {
			list := samples(g)
			list.path = g.share() + "/samples?step=" + fmt.Sprint(round)
			return list
		},
	}
}

// fleet creates a fleet without nodes.
func (g *listGrower) fleet(name string) (path string) {
	g.Helper()
	var fleet created
	g.do(g.admin, http.MethodPost, "/api/fleets", map[string]any{"name": name, "kind": "agent", "pools": []string{name}}, &fleet)
	return "/api/fleets/" + fleet.ID
}

// share creates a link to the run's metrics and samples.
func (g *listGrower) share() (path string) {
	g.Helper()
	var link struct {
		Token string `json:"token"`
	}
	body := map[string]any{"kind": "job", "target_ids": []string{g.run.job}, "fields": []string{"metrics", "samples"}}
	g.do(g.as("operator"), http.MethodPost, "/api/shares", body, &link)
	return "/api/share/" + link.Token
}
