package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/contract/routes"
)

// auditPath is the path of the audit log, which grows with every action.
const auditPath = "/api/admin/audit"

// createOtherObjects creates objects that training and serving do not create, among others a team, a project, a
// stored setting and a pending device authorization. A restart must keep them. createOtherObjects returns values
// of the variables of test/contract/routes.
func createOtherObjects(t *testing.T, l *e2eflow.Loop) map[string]string {
	t.Helper()
	ctx := t.Context()
	var me struct {
		Username string `json:"username"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/auth/me", nil, &me))
	type person struct {
		ID       string `json:"id"`
		Username string `json:"username"`
	}
	var users []person
	require.NoError(t, l.Client.Get(ctx, "/api/admin/users", nil, &users))
	i := slices.IndexFunc(users, func(u person) bool { return u.Username == me.Username })
	require.GreaterOrEqual(t, i, 0)
	var team, project struct {
		ID string `json:"id"`
	}
	require.NoError(t, l.Client.Post(ctx, "/api/teams", map[string]string{"key": "night-shift", "name": "Night shift"}, &team))
	require.NoError(t, l.Client.Post(ctx, "/api/projects", map[string]string{"key": "yard", "name": "Yard", "team_id": team.ID}, &project))
	setting := "/api/admin/settings/installation.name"
	require.NoError(t, l.Client.Do(ctx, http.MethodPut, setting, map[string]any{"value": "box of the yard", "version": 0}, nil))
	hardware := map[string]any{"series": []any{map[string]any{"key": "cpu", "model": "any", "vram_gb": 0}}, "profiles": []any{}}
	require.NoError(t, l.Client.Do(ctx, http.MethodPut, "/api/admin/hardware/config", hardware, nil))
	var share struct {
		Token string `json:"token"`
	}
	request := map[string]any{"kind": "job", "target_ids": []string{l.Job.ID}, "fields": []string{"metrics", "config", "samples"}}
	require.NoError(t, l.Client.Post(ctx, "/api/shares", request, &share))
	var nodes []struct {
		ID string `json:"id"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/cluster/nodes", nil, &nodes))
	var code struct {
		UserCode string `json:"user_code"`
	}
	require.NoError(t, l.Client.Post(ctx, "/api/cli/device/code", struct{}{}, &code))
	var environment, rubric, solution struct {
		ID string `json:"id"`
	}
	require.NoError(t, l.Client.Post(ctx, "/api/environments", map[string]string{"name": "signal-yard"}, &environment))
	require.NoError(t, l.Client.Post(ctx, "/api/rubrics", map[string]string{"name": "signals"}, &rubric))
	criteria := map[string]any{"content": map[string]any{"criteria": []any{map[string]any{"key": "right", "kind": "exact", "weight": 1}}}}
	require.NoError(t, l.Client.Post(ctx, "/api/rubrics/"+rubric.ID+"/versions", criteria, nil))
	_, version, err := l.Lock(ctx, e2eflow.Recipe)
	require.NoError(t, err)
	manifest := map[string]any{"name": "additions", "version": "1", "recipe": e2eflow.Recipe + "@" + version}
	require.NoError(t, l.Client.Post(ctx, "/api/solutions", map[string]any{"manifest": manifest}, &solution))
	model := modelOf(t, l)
	artifacts, err := l.Artifacts(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Client.Do(ctx, http.MethodPut, "/api/models/"+model+"/versions/1/card", map[string]string{"content": "# Additions"}, nil))
	require.NoError(t, l.Client.Do(ctx, http.MethodPut, "/api/models/"+model+"/aliases/steady", map[string]int{"version": 1}, nil))
	words := map[string]any{"tags": []string{"baseline"}, "notes": "The first training of the yard."}
	require.NoError(t, l.Client.Do(ctx, http.MethodPatch, "/api/runs/"+l.Job.RunID, words, nil))
	var traffic []struct {
		RequestID string `json:"request_id"`
	}
	require.NoError(t, l.Client.Get(ctx, trafficPath(l), nil, &traffic))
	return map[string]string{
		"environment_id": environment.ID, "rubric_id": rubric.ID, "solution_id": solution.ID, "request_id": traffic[0].RequestID,
		"user_id": users[i].ID, "team_id": team.ID, "project_id": project.ID, "setting_key": "installation.name",
		"user_code": code.UserCode, "node_id": nodes[0].ID, "token": share.Token, "artifact_id": artifacts[0].ID,
	}
}

// modelOf returns the id of the model that the loop registered.
func modelOf(t *testing.T, l *e2eflow.Loop) string {
	t.Helper()
	var models []struct {
		ID string `json:"id"`
	}
	require.NoError(t, l.Client.Get(t.Context(), "/api/models?name="+l.Name, nil, &models))
	return models[0].ID
}

// projectOf returns the id of the project in which the loop's run is.
func projectOf(t *testing.T, l *e2eflow.Loop) string {
	t.Helper()
	var run struct{ Project string }
	require.NoError(t, l.Client.Get(t.Context(), "/api/runs/"+l.Job.RunID, nil, &run))
	var projects []struct{ ID, Key string }
	require.NoError(t, l.Client.Get(t.Context(), "/api/projects", nil, &projects))
	for _, p := range projects {
		if p.Key == run.Project {
			return p.ID
		}
	}
	require.FailNow(t, "the project of the run is not listed")
	return ""
}

// resources returns the paths of all GET routes of RPCs, except those for which the table of routes states why there is no
// data: the tests of the services cover them after a restart. It fills in the ids of the loop's objects and the given values.
// empty has the paths, by row, of the routes that must not return data; those of objects that the test does not make are left out.
func resources(t *testing.T, l *e2eflow.Loop, values map[string]string) (paths []string, empty map[string]routes.Row) {
	t.Helper()
	var datasets, fleets []struct {
		ID string `json:"id"`
	}
	require.NoError(t, l.Client.Get(t.Context(), "/api/datasets?name="+l.Name, nil, &datasets))
	require.NoError(t, l.Client.Get(t.Context(), "/api/fleets", nil, &fleets))
	_, version, err := l.Lock(t.Context(), e2eflow.Recipe)
	require.NoError(t, err)
	namespace, name, _ := strings.Cut(e2eflow.Recipe, "/")
	all := map[string]string{
		"job_id": l.Job.ID, "run_id": l.Job.RunID, "dataset_id": datasets[0].ID, "model_id": modelOf(t, l),
		"deployment_id": l.Deployment.ID, "number": strconv.Itoa(l.Revision.Number), "fleet_id": fleets[0].ID,
		"namespace": namespace, "name": name, "recipe_version": version,
	}
	maps.Copy(all, values)
	var out []string
	empty = map[string]routes.Row{}
	for _, rt := range routes.Load().Routes() {
		if rt.Kind != route.RPC || rt.Method != http.MethodGet || rt.Sometimes != "" {
			continue
		}
		unmade := ""
		path := routes.Load().Fill(rt.Pattern, func(v routes.Variable) string {
			if rt.Pattern == "/api/projects/{project_id}/tags" {
				return projectOf(t, l)
			}
			value := cmp.Or(all[v.Name], v.Present)
			if value == "" {
				unmade = v.Name
			}
			return value
		})
		if rt.Empty != "" {
			if unmade == "" {
				empty[path] = rt
			}
			continue
		}
		require.Empty(t, unmade, "%s: the test has no value of %s: create one, or add the word empty=\"WHY\" to the row of the route", rt.Pattern, unmade)
		if routes.Limited(rt.Route) {
			path += "?limit=500"
		}
		// Limit the time range, because the restart itself adds later entries.
		switch now := time.Now().UTC(); rt.Pattern {
		case "/api/search":
			path += "?q=" + l.Name
		case auditPath:
			path += "&until=" + now.Format(time.RFC3339Nano)
		case "/api/model-deployments/{deployment_id}/metrics":
			path += "?from=" + now.Add(-time.Hour).Format(time.RFC3339Nano) + "&to=" + now.Format(time.RFC3339Nano)
		}
		out = append(out, path)
	}
	require.Greater(t, len(out), 35)
	require.NotEmpty(t, empty)
	return append(out, "/api/runs?state=all", "/api/version"), empty
}

// requireEmpty checks that the rows with the word empty tell the truth.
func requireEmpty(ctx context.Context, t *testing.T, l *e2eflow.Loop, empty map[string]routes.Row) {
	t.Helper()
	for path, r := range empty {
		a, err := l.Client.Call(ctx, http.MethodGet, path, nil)
		require.NoError(t, err)
		assert.Empty(t, emptyFault(r, a.Status, a.Body))
	}
}

// emptyFault states what is wrong with the word empty of a row, given a response of its route; "" if it is right.
func emptyFault(r routes.Row, status int, body []byte) string {
	if status == http.StatusNotFound || status == http.StatusOK && !hasData(body) {
		return ""
	}
	return fmt.Sprintf("%s has the word empty=%q, but returns %d %.200s: remove the word, so that the restarts compare the data (test/contract/routes/routes.txt)",
		r.Served(), r.Empty, status, body)
}

// hasData reports whether a body has more than an empty list or object.
func hasData(body []byte) bool { return len(bytes.Trim(body, "[]{}\n")) > 0 }

func TestEmptyFault(t *testing.T) {
	t.Parallel()
	r := routes.Row{Route: route.Route{Method: http.MethodGet, Pattern: "/api/jobs/{id}/benchmarks"}, Empty: "no score"}
	require.Empty(t, emptyFault(r, http.StatusOK, []byte("[]\n")))
	require.Empty(t, emptyFault(r, http.StatusOK, []byte("{}")))
	require.Empty(t, emptyFault(r, http.StatusNotFound, []byte(`{"detail": "no evaluation"}`)))
	require.Contains(t, emptyFault(r, http.StatusOK, []byte(`[{"name": "sums"}]`)), `GET /api/jobs/{id}/benchmarks has the word empty="no score", but returns 200 [{"name": "sums"}]: remove the word`)
	require.NotEmpty(t, emptyFault(r, http.StatusUnprocessableEntity, []byte(`{"detail": []}`)), "a path that is not valid shows nothing")
}

// readAll returns the response body of each path, without the fields that a restart may change.
func readAll(ctx context.Context, t *testing.T, l *e2eflow.Loop, paths []string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, path := range paths {
		a, err := l.Client.Call(ctx, http.MethodGet, path, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status, "%s: %s", path, a.Body)
		require.True(t, hasData(a.Body), "%s must return data to compare", path)
		out[strings.TrimSuffix(path, "?limit=500")] = withoutChangingFields(t, path, a.Body)
	}
	return out
}

// changingFields returns the fields of a resource that a restart may change.
func changingFields(path string) []string {
	switch {
	case strings.HasSuffix(path, "/download?limit=500"):
		return []string{"url", "expires_at"} // each response has new signed URLs
	case strings.Contains(path, "/revisions") && !strings.Contains(path, "/lineage"):
		return []string{"replicas", "ready_at"}
	case strings.HasPrefix(path, "/api/cluster/nodes"):
		return []string{"last_seen_at"} // a connected node sends reports continually
	case strings.HasPrefix(path, "/api/fleets") && !strings.Contains(path, "/join-tokens"):
		return []string{"last_seen_at"}
	case path == "/api/shares?limit=500":
		return []string{"views", "last_viewed_at"} // this test views the share
	case path == "/api/profile/sessions?limit=500":
		return []string{"last_used_at"}
	}
	return nil
}

// withoutChangingFields removes the fields that a restart may change. Each of them must be present.
func withoutChangingFields(t *testing.T, path string, body []byte) []byte {
	t.Helper()
	fields := changingFields(path)
	if fields == nil {
		return body
	}
	var list []map[string]json.RawMessage
	if bytes.HasPrefix(body, []byte("{")) {
		body = append(append([]byte("["), body...), ']')
	}
	require.NoError(t, json.Unmarshal(body, &list))
	for _, r := range list {
		for _, field := range fields {
			require.Contains(t, r, field)
			delete(r, field)
		}
	}
	raw, err := json.Marshal(list)
	require.NoError(t, err)
	return raw
}
