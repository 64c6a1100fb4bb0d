package contract

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// with returns a client that sends the token.
func (g *grower) with(token string) *client.Client { return g.caller().With(secret.New(token)) }

// waiting submits a job with the lowest priority to a pool without nodes, so that it stays queued.
func (g *grower) waiting(name string) string {
	g.Helper()
	var job made
	g.do(g.as("operator"), http.MethodPost, "/api/jobs", map[string]any{"api": "service/v1", "spec": map[string]any{
		"name": name, "project": projectKey, "priority": 0, "source": map[string]any{"command": []string{"true"}},
		"recipe":    map[string]any{"name": recipe, "version": g.at("recipe_version"), "lock": json.RawMessage(g.at("recipe_lock"))},
		"resources": map[string]any{"pools": []any{map[string]any{"pool": g.pool}}},
	}}, &job)
	return job.ID
}

// ofWork returns, by path, how to grow each list of jobs, fleets, nodes and shares.
func ofWork() map[string]func(g *grower) growth {
	submitted := func(list growth) func(g *grower) growth {
		return func(g *grower) growth {
			list.add = func(n int) { g.waiting(rowName(n)) }
			return list
		}
	}
	return map[string]func(g *grower) growth{
		"/api/jobs":          submitted(growth{path: "/api/jobs", comes: inFront}),
		"/api/runs":          submitted(growth{path: "/api/runs?state=all", comes: inFront}),
		"/api/cluster/queue": submitted(growth{path: "/api/cluster/queue", by: "job_id", comes: behind}),
		"/api/jobs/{job_id}/events": func(g *grower) growth {
			path := "/api/jobs/" + g.waiting("of-events")
			return growth{path: path + "/events", comes: behind, add: func(n int) {
				g.do(g.as("operator"), http.MethodPatch, path, map[string]any{"name": rowName(n)}, nil)
			}}
		},
		"/api/jobs/{job_id}/attempts": func(g *grower) growth {
			job := g.waiting("of-attempts")
			// Insert the rows directly, because a job waits for seconds before its next attempt.
			return growth{path: "/api/jobs/" + job + "/attempts", by: "number", comes: behind, add: func(n int) {
				g.rows(g.Context(), `INSERT INTO jobs.attempt (id, job_id, number, state, created_at)
					SELECT $1, $2, 1 + count(*), 'failed', now() FROM jobs.attempt WHERE job_id = $2`, fmt.Sprintf("att_%026d", n), job)
			}}
		},
		"/api/fleets": sorted("/api/fleets", "name", func(_ *grower, name string) map[string]any {
			return map[string]any{"name": name, "kind": "agent", "pools": []string{name}}
		}),
		"/api/fleets/{fleet_id}/join-tokens": func(g *grower) growth {
			return posts(g.fleet("of-tokens")+"/join-tokens", func(*grower, string) map[string]any { return map[string]any{} })(g)
		},
		"/api/cluster/nodes": func(g *grower) growth {
			var join struct {
				Token string `json:"token"`
			}
			g.do(g.admin, http.MethodPost, g.fleet("of-nodes")+"/join-tokens", map[string]any{"max_uses": 100}, &join)
			return growth{path: "/api/cluster/nodes", by: "name", add: func(n int) {
				body := map[string]any{"token": join.Token, "hostname": rowName(n), "certificate_request": g.certificateRequest()}
				g.do(g.caller(), http.MethodPost, "/api/fleets/join", body, nil)
			}}
		},
		"/api/shares": posts("/api/shares", func(g *grower, _ string) map[string]any {
			return map[string]any{"kind": "job", "target_ids": []string{g.run.job}}
		}),
		"/api/share/{token}/metrics": func(g *grower) growth {
			list := metrics(g)
			list.path = g.share() + "/metrics"
			return list
		},
		"/api/share/{token}/samples": func(g *grower) growth {
			list := samples(g)
			list.path = g.share() + "/samples?step=" + fmt.Sprint(round)
			return list
		},
	}
}

// fleet creates a fleet without nodes.
func (g *grower) fleet(name string) (path string) {
	g.Helper()
	var fleet made
	g.do(g.admin, http.MethodPost, "/api/fleets", map[string]any{"name": name, "kind": "agent", "pools": []string{name}}, &fleet)
	return "/api/fleets/" + fleet.ID
}

// share creates a link to the run's metrics and samples.
func (g *grower) share() (path string) {
	g.Helper()
	var link struct {
		Token string `json:"token"`
	}
	body := map[string]any{"kind": "job", "target_ids": []string{g.run.job}, "fields": []string{"metrics", "samples"}}
	g.do(g.as("operator"), http.MethodPost, "/api/shares", body, &link)
	return "/api/share/" + link.Token
}
