package identity

import (
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
)

// prepare returns the values for a cell's path and body. It creates new objects for requests that use up
// their objects.
func (w *harness) prepare(ctx context.Context, t *testing.T, c cell) objects {
	t.Helper()
	o := objects{}
	maps.Copy(o, w.hidden)
	maps.Copy(o, w.objectsOf(c.relation))
	o["setting version"], o["setting value"] = "0", "null"
	o["user_id"], o["username"], o["subject"] = w.tess.id, w.tess.name, w.tess.name
	need := w.needs()[c.Name()]
	if need == nil {
		need = w.fleetNeeds()[c.Name()]
	}
	if need != nil {
		need(ctx, t, o)
	}
	return o
}

// preparation creates the objects that a cell needs, as an admin would, and adds their ids to the values.
type preparation func(ctx context.Context, t *testing.T, o objects)

// needs returns preparations by route, for routes whose requests consume their object, or need an object other than the
// shared one.
func (w *harness) needs() map[string]preparation {
	token := w.creates("token_id", http.MethodPost, "/api/model-deployments/{deployment_id}/tokens", map[string]any{"name": "short-lived"})
	inTeam := w.creates("", http.MethodPut, "/api/teams/{team_id}/members/{username}", map[string]any{"role": "member"})
	inProject := w.creates("", http.MethodPut, "/api/projects/{project_id}/members/{username}", map[string]any{"role": "viewer"})
	alias := w.creates("", http.MethodPut, "/api/models/{model_id}/aliases/{alias}", map[string]any{"version": 1})
	noted := w.creates("", http.MethodPatch, "/api/runs/{run_id}", map[string]any{"notes": "Noted."})
	return map[string]preparation{
		"DELETE /api/models/{model_id}":                                   w.spare("model"),
		"DELETE /api/models/{model_id}/aliases/{alias}":                   alias,
		"DELETE /api/model-deployments/{deployment_id}":                   w.spare("deployment"),
		"DELETE /api/model-deployments/{deployment_id}/tokens/{token_id}": token,
		"DELETE /api/teams/{team_id}/members/{username}":                  inTeam,
		"DELETE /api/projects/{project_id}/members/{username}":            inProject,
		"POST /api/admin/users/{user_id}/transfer":                        w.disabledUser,
		"GET /api/runs/{run_id}/notes/{version}":                          noted,
		"GET /pages/{asset}":                                              w.asset,
		"HEAD /pages/{asset}":                                             w.asset,
		"DELETE /api/teams/{team_id}":                                     w.anotherTeam,
		"DELETE /api/profile/sessions/{session_id}":                       w.anotherSession,
		"GET /api/cli/device/requests/{user_code}":                        w.userCode,
		"POST /api/cli/device/requests/{user_code}":                       w.userCode,
		"GET /api/admin/settings/{key}":                                   w.setting,
		"PUT /api/admin/settings/{key}":                                   w.setting,
		"GET /api/admin/settings/{key}/versions":                          w.setting,
		"POST /api/jobs/{job_id}/retry":                                   w.stopJob,
		"DELETE /api/jobs/{job_id}":                                       w.copyJob,
		"DELETE /api/runs/{run_id}":                                       w.copyJob,
		"GET /api/fleets/{fleet_id}":                                      w.fleet,
		"POST /api/fleets/{fleet_id}/join-tokens":                         w.fleet,
		"POST /api/datasets/{dataset_id}/versions/{version}/commit":       w.upload,
		"DELETE /api/datasets/{dataset_id}/versions/{version}":            w.upload,
		"DELETE /api/environments/{environment_id}":                       w.spare("environment"),

		"POST /api/environments/{environment_id}/versions/{version}/deprecate": w.waitingVersion,
	}
}

// TestPreparations_haveRoutes checks that each preparation belongs to a route.
func TestPreparations_haveRoutes(t *testing.T) {
	t.Parallel()
	served := map[string]bool{}
	for _, rt := range route.Table() {
		served[rt.Method+" "+rt.Pattern] = true
	}
	w := &harness{}
	for _, needs := range []map[string]preparation{w.needs(), w.fleetNeeds()} {
		for name := range needs {
			assert.True(t, served[name], "%s is not served: remove its preparation", name)
		}
	}
}

// creates returns a preparation that sends one request as admin and stores the id from the response under the given
// name.
func (w *harness) creates(name, method, path string, body map[string]any) preparation {
	return func(ctx context.Context, t *testing.T, o objects) {
		t.Helper()
		var made struct {
			ID string `json:"id"`
		}
		w.people["admin"].do(ctx, t, w.Installation, method, o.fill(t, path), body, &made)
		if name != "" {
			o[name] = made.ID
		}
	}
}

// spare returns a preparation that selects the next spare object of the given kind, which no cell has deleted.
func (w *harness) spare(kind string) preparation {
	return func(_ context.Context, t *testing.T, o objects) {
		t.Helper()
		key := kind + " of " + o["project"]
		next := fmt.Sprintf("spare %s %d", kind, w.usedSpares[key])
		require.NotEmpty(t, o[next], "no spare object is left: %s", next)
		o[kind+"_id"], o["spare of"] = o[next], key
	}
}

func (w *harness) anotherTeam(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	w.creates("team_id", http.MethodPost, "/api/teams", map[string]any{"key": w.unique(), "name": "Short-lived"})(ctx, t, o)
}

// disabledUser creates a disabled user, because only a disabled user's objects can be transferred.
func (w *harness) disabledUser(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	var made struct {
		User struct {
			ID string `json:"id"`
		} `json:"user"`
	}
	admin := w.people["admin"]
	admin.do(ctx, t, w.Installation, http.MethodPost, "/api/admin/users", map[string]any{"username": w.unique(), "role": "operator"}, &made)
	admin.do(ctx, t, w.Installation, http.MethodPatch, "/api/admin/users/"+made.User.ID, map[string]any{"disabled": true}, nil)
	o["user_id"] = made.User.ID
}

// stopJob stops the job and waits until it has ended, because only an ended job can be retried.
func (w *harness) stopJob(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	admin := w.people["admin"]
	a := admin.call(ctx, t, w.Installation, http.MethodPost, "/api/jobs/"+o["job_id"]+"/stop?force=true", "")
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted, http.StatusConflict}, a.status, "%s", a.body)
	var job struct {
		State string `json:"state"`
	}
	require.Eventually(t, func() bool {
		admin.do(ctx, t, w.Installation, http.MethodGet, "/api/jobs/"+o["job_id"], nil, &job)
		return slices.Contains([]string{"stopped", "failed"}, job.State) // a job that was restarted too often has failed
	}, time.Minute, 50*time.Millisecond, "the job does not end: %+v", &job)
}

func (w *harness) fleet(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	name := w.unique()
	w.creates("fleet_id", http.MethodPost, "/api/fleets", map[string]any{"name": name, "kind": "agent", "pools": []string{name}})(ctx, t, o)
	o["pool"] = name
}

// upload creates a version whose files are uploaded but not committed.
func (w *harness) upload(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	o["dataset_version"] = w.unique()
	w.uploadUncommitted(ctx, t, w.people["admin"], o["dataset_id"], o["dataset_version"])
}

// anotherSession creates another session of the owner.
func (w *harness) anotherSession(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	var sessions []struct {
		ID      string `json:"id"`
		Current bool   `json:"current"`
	}
	w.made++
	w.people["owner"].newSession(ctx, t, w.Installation, 1000+w.made).do(ctx, t, w.Installation, http.MethodGet, "/api/profile/sessions", nil, &sessions)
	for _, s := range sessions {
		if s.Current {
			o["session_id"] = s.ID
		}
	}
	require.NotEmpty(t, o["session_id"])
}

func (w *harness) userCode(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	var flow struct {
		UserCode string `json:"user_code"`
	}
	w.made++
	at(20000+w.made).do(ctx, t, w.Installation, http.MethodPost, "/api/cli/device/code", map[string]any{}, &flow)
	o["user_code"] = flow.UserCode
}

// asset selects a file of the sign-in page.
func (w *harness) asset(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	page := w.people["nobody"].call(ctx, t, w.Installation, http.MethodGet, "/login", "")
	_, name, found := strings.Cut(string(page.body), `"/pages/`)
	require.True(t, found, "%s", page.body)
	o["asset"], _, _ = strings.Cut(name, `"`)
}

// setting selects the first setting that is not a secret.
func (w *harness) setting(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	var settings []struct {
		Key     string          `json:"key"`
		Type    string          `json:"type"`
		Value   json.RawMessage `json:"value"`
		Version int             `json:"version"`
	}
	w.people["admin"].do(ctx, t, w.Installation, http.MethodGet, "/api/admin/settings", nil, &settings)
	for _, s := range settings {
		if s.Type != "secret" {
			o["setting_key"], o["setting version"], o["setting value"] = s.Key, strconv.Itoa(s.Version), string(s.Value)
			return
		}
	}
	require.FailNow(t, "the list contains only secret settings")
}
